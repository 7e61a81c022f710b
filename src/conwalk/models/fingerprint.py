"""Fingerprints of weights, in files and in memory."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from conwalk.errors import CaptureError
from conwalk.models import offload


def of_file(path: Path) -> str:
    """SHA-256 of a file's bytes, 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_files(paths: Sequence[Path]) -> str:
    """Fingerprint of weight files, the same wherever their folder lies.

    Returns:
        ``"sha256:…"``, of the names and bytes in name order.
    """
    digest = hashlib.sha256()
    for path in sorted(paths, key=lambda p: p.name):
        digest.update(f"{path.name}\0{of_file(path)}\n".encode())
    return f"sha256:{digest.hexdigest()}"


@torch.no_grad()
def of_module(module: nn.Module) -> str:
    """Fingerprint of the parameters of a module, in the order of their names.

    A tied parameter counts once. Names, dtypes, shapes and bytes all enter; weights that are
    offloaded are read one at a time.

    Returns:
        ``"sha256:…"``; empty if there is a parameter without values.
    """
    digest = hashlib.sha256()
    owners = dict(module.named_modules())
    for name, parameter in sorted(module.named_parameters()):
        digest.update(f"{name}\0{parameter.dtype}\0{tuple(parameter.shape)}\n".encode())
        path, _, own = name.rpartition(".")
        try:
            values = offload.value(owners[path], own)
        except CaptureError:
            return ""
        digest.update(_bytes(values))
    return f"sha256:{digest.hexdigest()}"


def of_tensors(*tensors: Tensor | None) -> str:
    """Fingerprint of some tensors in their order; absent ones count as absent.

    Returns:
        ``"sha256:…"``.
    """
    digest = hashlib.sha256()
    for t in tensors:
        digest.update(f"{None if t is None else (t.dtype, tuple(t.shape))}\n".encode())
        if t is not None:
            digest.update(_bytes(t))
    return f"sha256:{digest.hexdigest()}"


def _bytes(t: Tensor) -> memoryview:
    return t.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
