"""Results on disk."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import xarray as xr

from conwalk.errors import OutputError
from conwalk.results.dataset import FORMAT

NAME = "results.zarr"


def prepare(folder: Path) -> Path:
    """Make the folder for results, before any work is done for them.

    Raises:
        OutputError: it cannot be made or written, or what lies there is not a conwalk result.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputError(
            f"cannot write to {folder}: {error.strerror or error}; choose another --out"
        ) from error
    target = folder / NAME
    if target.exists() and not _is_ours(target):
        raise OutputError(
            f"{target} exists and is not a result of conwalk: move it away or choose another --out"
        )
    return folder


def save(dataset: xr.Dataset, folder: Path) -> Path:
    """Write a dataset to ``folder/results.zarr``; an older one is replaced only once it is whole.

    Returns:
        The path written.

    Raises:
        OutputError: see :func:`prepare`, or the disk refused.
    """
    folder = prepare(folder)
    target = folder / NAME
    scratch = Path(tempfile.mkdtemp(prefix=".writing-", dir=folder))
    try:
        dataset.to_zarr(scratch / NAME, mode="w", consolidated=False)
        if target.exists():
            target.replace(scratch / "old")
        (scratch / NAME).replace(target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def read(path: Path | str) -> xr.Dataset:
    """Read results written by :func:`save`.

    Args:
        path: the ``results.zarr`` folder, or the folder that holds it.

    Raises:
        OutputError: there are none.
    """
    path = Path(path)
    target = path / NAME if (path / NAME).exists() else path
    if not target.exists() or not _is_ours(target):
        raise OutputError(f"{path} holds no conwalk results: give a folder that analyze wrote")
    return xr.open_zarr(target, consolidated=False).load()


def _is_ours(target: Path) -> bool:
    metadata = target / "zarr.json"
    if not os.access(metadata, os.R_OK):
        return False
    attributes = json.loads(metadata.read_text(encoding="utf-8")).get("attributes", {})
    return attributes.get("format") == FORMAT
