"""How a model is asked for: dtype, device, network, trust, cache."""

import difflib
import os
from dataclasses import dataclass

import torch

from conwalk.errors import SourceError

AUTO = "auto"
_DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True)
class Options:
    """The checked options of one load.

    Attributes:
        dtype: a torch dtype, or ``"auto"`` for that of the checkpoint.
        device: a device this machine has.
        offline: True never touches the network; None leaves it to ``HF_HUB_OFFLINE``.
        trust_remote_code: whether code that comes with a model may run.
        cache_dir: folder for converted models; None for the user's cache.
        revision: branch, tag or commit on the Hub.
        max_memory: bytes of weights that are kept in memory, the rest being read from disk layer by
            layer; None for no such bound.
        offload: folder for weights that are not in files of the form they are needed in; None for
            one in the cache. Either of the two leaves what has no room on disk.
    """

    dtype: torch.dtype | str
    device: torch.device
    offline: bool | None = None
    trust_remote_code: bool = False
    cache_dir: str | os.PathLike[str] | None = None
    revision: str | None = None
    max_memory: int | None = None
    offload: str | os.PathLike[str] | None = None

    @property
    def offloads(self) -> bool:
        """Whether weights may stay on disk."""
        return self.max_memory is not None or self.offload is not None


def parse_size(wanted: str | int | None) -> int | None:
    """Bytes, from a number of them or a text such as ``"2GB"`` or ``"500MiB"``.

    Raises:
        SourceError: it is no size.
    """
    from accelerate.utils.modeling import convert_file_size_to_int

    if wanted is None:
        return None
    try:
        found = convert_file_size_to_int(wanted)
    except ValueError:
        found = -1
    if found <= 0:
        raise SourceError(f"size {wanted!r} cannot be read: write it like 2GB or 500MB")
    return found


def parse_dtype(wanted: str | torch.dtype) -> torch.dtype | str:
    """The torch dtype of a name; ``"auto"`` stays as it is.

    Raises:
        SourceError: no such dtype, or one that models do not run in.
    """
    name = str(wanted).removeprefix("torch.")
    if name == AUTO:
        return AUTO
    if name in _DTYPES:
        return _DTYPES[name]
    names = [*_DTYPES, AUTO]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"use one of {', '.join(names)}"
    raise SourceError(f"dtype {name!r} is not one that models can be loaded in; {hint}")


def parse_device(wanted: str | torch.device) -> torch.device:
    """The torch device of a name.

    Raises:
        SourceError: no such device, or this machine does not have it.
    """
    try:
        found = torch.device(wanted)
    except RuntimeError as error:
        message = f"device {str(wanted)!r} is not a device; use cpu, cuda, cuda:N or mps"
        raise SourceError(message) from error
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise SourceError(
            f"device {str(found)!r} is not available: torch sees {torch.cuda.device_count()} CUDA "
            "devices; use device='cpu', or install a CUDA build of torch"
        )
    if found.type == "mps" and not torch.backends.mps.is_available():
        raise SourceError("device 'mps' is not available on this machine; use device='cpu'")
    return found
