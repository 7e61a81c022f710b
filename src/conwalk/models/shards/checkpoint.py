"""Checkpoints that give one parameter at a time, by the name the model has for it."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from conwalk.errors import SourceError
from conwalk.models.shards.naming import Recipe, recipes
from conwalk.models.weight_files import header


@runtime_checkable
class Checkpoint(Protocol):
    """Weights in files.

    Attributes:
        fingerprint: changes when the files change; made without reading the weights.
        n_bytes: size of the files.
    """

    fingerprint: str
    n_bytes: int

    def __contains__(self, parameter: str) -> bool:
        """Whether the checkpoint has what it takes to make a parameter."""
        ...

    def shape(self, parameter: str) -> tuple[int, ...] | None:
        """The shape of a parameter, where it is known without making it."""
        ...

    def read(self, parameter: str) -> Tensor:
        """One parameter in the dtype of the file; its memory is the file's where that is possible.

        Raises:
            SourceError: the file has it in a form that is not the parameter's own.
        """
        ...


class Safetensors:
    """One or several safetensors files, memory-mapped anew for every parameter.

    Pages of a mapping that nobody holds any more do not stay in memory.

    Args:
        files: the files, whole.
        module: the model, which says how tensors are renamed; on the meta device.
        source: what errors call it.
    """

    def __init__(self, files: Sequence[Path], module: nn.Module, source: str) -> None:
        self._module = module
        self._source = source
        self._file_of: dict[str, Path] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        for file in files:
            for key, entry in header(file, source).items():
                self._file_of[key], self._entries[key] = file, entry
        self._recipes = recipes(module, self._file_of)
        self.fingerprint = of_headers(files)
        self.n_bytes = sum(file.stat().st_size for file in files)

    def __contains__(self, parameter: str) -> bool:
        """Whether the checkpoint has what it takes to make a parameter."""
        return parameter in self._recipes

    def shape(self, parameter: str) -> tuple[int, ...] | None:
        """The shape of a parameter, where it is one tensor as it stands."""
        key = self._recipes[parameter].key
        return None if key is None else tuple(self._entries[key]["shape"])

    def read(self, parameter: str) -> Tensor:
        """One parameter, a view of the file's memory where it is stored as it stands.

        Raises:
            SourceError: it is stored in a quantized form.
        """
        recipe: Recipe = self._recipes[parameter]
        made = recipe.make(parameter, self._module, self._tensor)
        if not made.dtype.is_floating_point or made.dtype.itemsize == 1:
            raise SourceError(
                f"{self._source}: {parameter} is stored as {str(made.dtype).removeprefix('torch.')}"
                ": quantized weights cannot be read by themselves; conwalk analyze loads the model"
            )
        return made

    def _tensor(self, key: str) -> Tensor:
        from safetensors import safe_open

        with safe_open(self._file_of[key], framework="pt") as file:
            return file.get_tensor(key)


def of_headers(files: Sequence[Path]) -> str:
    """Fingerprint of weight files without reading the weights: names, sizes, times and headers.

    Returns:
        ``"headers:…"``.
    """
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda f: f.name):
        state = file.stat()
        digest.update(f"{file.name}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(_HEAD))
    return f"headers:{digest.hexdigest()}"


_HEAD = 2**20
