"""Where a model lies: a package, a folder, a file, or the Hub."""

import os
import re
from pathlib import Path

from conwalk.errors import SourceError
from conwalk.models import hub, package
from conwalk.models.model import Kind
from conwalk.models.source_options import Options

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")

Place = tuple[Kind, Path, tuple[str, ...]]
"""The kind of a source, the existing folder or file it names, and notes."""


def locate_model(source: str | os.PathLike[str], options: Options) -> Place:
    """The folder or GGUF file that a source names; a folder with one GGUF file is that file.

    Raises:
        SourceError: there is none.
    """
    kind, place, notes = locate(source, options)
    if options.revision and kind != "hub":
        notes += ("revision is ignored: it belongs to Hub ids",)
    if alone := _only_gguf(place):
        place = alone
    return ("gguf" if place.is_file() and kind == "folder" else kind), place, notes


def locate(source: str | os.PathLike[str], options: Options) -> Place:
    """The folder or file that a source names.

    Raises:
        SourceError: there is none.
    """
    name = os.fspath(source)
    if name.startswith(package.PREFIX):
        return "package", package.locate(name), ()
    place = Path(name).expanduser()
    if name and place.exists():
        return "folder", place, ()
    if _is_path(source) and "://" not in name:
        raise SourceError(
            f"{name}: there is no such {'file' if place.suffix else 'folder'} "
            f"(looked for {place.absolute()}); check the path"
        )
    if not _HUB_ID.fullmatch(name):
        raise SourceError(
            f"{name!r} is no model source; give a Hub id (organisation/name), a folder, a .gguf "
            "file, pkg:package/path or a loaded module"
        )
    found, notes = hub.fetch(name, options)
    return "hub", found, notes


def _is_path(source: str | os.PathLike[str]) -> bool:
    """Whether something that does not exist was meant as a path, not as a Hub id."""
    name = os.fspath(source)
    return (
        not isinstance(source, str)
        or name.startswith((".", "~", "/", os.sep))
        or name.endswith(".gguf")
        or max(name.count("/"), name.count(os.sep)) > 1
    )


def _only_gguf(place: Path) -> Path | None:
    """The GGUF file of a folder that holds nothing else to load."""
    if not place.is_dir() or (place / "config.json").exists():
        return None
    files = list(place.glob("*.gguf"))
    return files[0] if len(files) == 1 else None
