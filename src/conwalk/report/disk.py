"""Pages on disk."""

import os
import tempfile
from pathlib import Path

import xarray as xr

from conwalk.errors import OutputError
from conwalk.report.document import MOST_MEGABYTES, page


def write(dataset: xr.Dataset, path: Path | str, *, megabytes: float = MOST_MEGABYTES) -> Path:
    """Write a report; an older one is replaced only once the new one is whole.

    Args:
        dataset: results of ``analyze``.
        path: the file to write.
        megabytes: see :func:`page`.

    Returns:
        The path.

    Raises:
        OutputError: it cannot be written.
    """
    return replace(Path(path), page(dataset, megabytes=megabytes))


def replace(path: Path, text: str) -> Path:
    """Write a text beside its place, then move it there.

    Args:
        path: the file to write; its folder is made if need be.
        text: all of it.

    Returns:
        The path.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".writing-", suffix=path.suffix, dir=path.parent)
        scratch = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            scratch.chmod(0o666 & ~_umask())
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _umask() -> int:
    """What new files may not be; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
