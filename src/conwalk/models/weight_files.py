"""The weight files of a model folder: which ones count, and whether they are whole."""

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conwalk.errors import SourceError

_INDEX = ".index.json"
# In the order in which transformers looks for them.
_ENTRIES = (
    "model.safetensors",
    "model.safetensors" + _INDEX,
    "pytorch_model.bin",
    "pytorch_model.bin" + _INDEX,
)
_HEADER_LENGTH = struct.Struct("<Q")
# What a Git LFS pointer starts with, as far as a header length would reach.
_POINTER = b"version "


def entry(names: Iterable[str]) -> str | None:
    """The file of a folder listing that holds the weights, or the index of its shards."""
    present = set(names)
    return next((name for name in _ENTRIES if name in present), None)


def shards_of(entry_name: str, names: Iterable[str]) -> list[str]:
    """The weight files of a folder listing, known by their names alone."""
    if not entry_name.endswith(_INDEX):
        return [entry_name]
    stem, suffix = entry_name.removesuffix(_INDEX).rsplit(".", 1)
    return sorted(n for n in names if n.startswith(f"{stem}-") and n.endswith(f".{suffix}"))


def find(folder: Path, source: str) -> list[Path]:
    """The weight files of a model folder, each there and whole.

    Raises:
        SourceError: there are none, or one is missing, empty or cut short.
    """
    names = sorted(file.name for file in folder.iterdir())
    found = entry(names)
    if found is None:
        raise SourceError(_no_weights(source, folder, names))
    if found.endswith(_INDEX):
        index = read_json(folder / found, source)
        files = sorted({folder / name for name in index.get("weight_map", {}).values()})
    else:
        files = [folder / found]
    for file in files:
        _check_whole(file, source)
    return files


def read_json(path: Path, source: str) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        SourceError: the file is not valid JSON, or holds no object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SourceError(
            f"{source}: {path.name} is not valid JSON ({error}); copy or download it again"
        ) from error
    if not isinstance(content, dict):
        raise SourceError(f"{source}: {path.name} holds no JSON object; download it again")
    return content


def _no_weights(source: str, folder: Path, names: list[str]) -> str:
    gguf = [name for name in names if name.endswith(".gguf")]
    hint = f"name the GGUF file: {source}/{gguf[0]}" if gguf else "download or copy the weights too"
    return (
        f"{source}: the folder {folder} has no weights (looked for {_ENTRIES[0]}, {_ENTRIES[2]} "
        f"and their {_INDEX}); {hint}"
    )


def _check_whole(file: Path, source: str) -> None:
    if not file.is_file():
        raise SourceError(
            f"{source}: the weight file {file.name} is listed in the index but is not there; "
            "download it too"
        )
    size = file.stat().st_size
    if size == 0:
        raise SourceError(f"{source}: {file.name} is empty (0 bytes); download it again")
    if file.suffix == ".safetensors":
        expected = _promised_size(file, source)
        if expected != size:
            raise SourceError(
                f"{source}: {file.name} is {'cut short' if size < expected else 'too long'} "
                f"({size} bytes, its header promises {expected}); download it again"
            )


def _promised_size(file: Path, source: str) -> int:
    """Bytes a safetensors file must have, by its own header."""
    ends = [entry["data_offsets"][1] for entry in header(file, source).values()]
    with file.open("rb") as stream:
        length = _HEADER_LENGTH.unpack(stream.read(_HEADER_LENGTH.size))[0]
    return _HEADER_LENGTH.size + length + max(ends, default=0)


def header(file: Path, source: str) -> dict[str, dict[str, Any]]:
    """The tensors of a safetensors file by name: ``dtype``, ``shape`` and ``data_offsets``.

    Raises:
        SourceError: it is a Git LFS pointer, or its header cannot be read.
    """
    with file.open("rb") as stream:
        start = stream.read(_HEADER_LENGTH.size)
        if start == _POINTER:
            raise SourceError(
                f"{source}: {file.name} is a Git LFS pointer, not the weights; run `git lfs pull`"
            )
        length = _HEADER_LENGTH.unpack(start)[0] if len(start) == _HEADER_LENGTH.size else 0
        content = stream.read(length) if length <= file.stat().st_size else b""
    try:
        tensors = {k: entry for k, entry in json.loads(content).items() if k != "__metadata__"}
        for entry in tensors.values():
            # all that is read of an entry is there
            _ = entry["dtype"], entry["shape"], entry["data_offsets"][1]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SourceError(
            f"{source}: {file.name} is cut short or is no safetensors file (its header cannot be "
            "read); download it again"
        ) from error
    return tensors
