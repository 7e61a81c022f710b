"""The user's cache folder, and folders that appear in it whole or not at all."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from conwalk.errors import OutputError

VARIABLE = "CONWALK_CACHE"
_DRAFT = ".draft-"
_ABANDONED_SECONDS = 24 * 3600


def root(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """The cache folder: ``cache_dir``, else ``$CONWALK_CACHE``, else the platform's own."""
    if chosen := (cache_dir or os.environ.get(VARIABLE)):
        return Path(chosen).expanduser()
    if local := os.environ.get("LOCALAPPDATA"):
        return Path(local) / "conwalk" / "cache"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "conwalk"


def store(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make ``folder`` by filling a temporary one beside it and renaming that.

    Readers never see a half-written folder. Of several processes that store the same
    folder at once the first to finish wins and the others drop their copy.

    Args:
        folder: the place; nothing happens to it if it exists by the time ``fill`` is done.
        fill: writes the contents into the path it is given.

    Raises:
        OutputError: the cache cannot be written to.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent)
        draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=folder.parent))
    except OSError as error:
        raise _unwritable(folder.parent, error) from error
    try:
        fill(draft)
        _put_in_place(draft, folder)
    except OSError as error:
        raise _unwritable(folder.parent, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove the drafts of processes that were killed long ago."""
    for draft in parent.glob(f"{_DRAFT}*"):
        # Another process may finish or sweep it at this very moment.
        with suppress(FileNotFoundError):
            if time.time() - draft.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(draft, ignore_errors=True)


def _put_in_place(draft: Path, folder: Path) -> None:
    try:
        draft.replace(folder)
    except OSError:
        if not folder.is_dir():
            raise


def _unwritable(place: Path, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    return OutputError(
        f"{place}: the cache cannot be written to ({reason}); "
        f"set {VARIABLE} or pass cache_dir= to use another folder"
    )
