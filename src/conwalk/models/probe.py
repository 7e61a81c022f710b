"""The inputs of the tiny forward passes that discover a model's layout."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from conwalk.errors import CaptureError
from conwalk.models import offload
from conwalk.models.sites import Side

_SOURCE, _TARGET = 3, 4
_TOKENS = {"input_ids": _SOURCE, "decoder_input_ids": _TARGET}


def lengths() -> dict[int, Side]:
    """Which token sequence has which length in the inputs of :func:`tiny`."""
    return {_SOURCE: "source", _TARGET: "target"}


def tiny(module: nn.Module, example: dict[str, Any] | None = None) -> dict[str, Any]:
    """Inputs of a pass just long enough to show the layout, batch of 1.

    Args:
        module: the model.
        example: inputs it is going to be given; token sequences are cut from them, everything
            else is taken for the first element of the batch.

    Raises:
        CaptureError: the model reads neither tokens nor pixels and no example was given.
    """
    main = getattr(module, "main_input_name", "input_ids")
    if example:
        return _cut(example)
    if main == "input_ids":
        inputs = {"input_ids": _tokens(module, _SOURCE)}
        if getattr(getattr(module, "config", None), "is_encoder_decoder", False) and (
            "decoder_input_ids" in inspect.signature(module.forward).parameters
        ):
            inputs["decoder_input_ids"] = _tokens(module, _TARGET)
        return inputs
    if main == "pixel_values":
        return {"pixel_values": _pixels(module)}
    raise CaptureError(
        f"{type(module).__name__} reads {main!r}: pass one example of its inputs, so that its "
        "attention can be found"
    )


def _device(module: nn.Module) -> torch.device:
    return offload.device(module)


def _tokens(module: nn.Module, n: int) -> Tensor:
    vocabulary = getattr(getattr(module, "config", None), "vocab_size", None) or 2 * n
    return torch.arange(n, device=_device(module))[None] % vocabulary


def _pixels(module: nn.Module) -> Tensor:
    config: Any = module.config
    size = config.image_size
    height, width = size if isinstance(size, list | tuple) else (size, size)
    dtype = next(p.dtype for p in module.parameters() if p.is_floating_point())
    shape = (1, getattr(config, "num_channels", 3), height, width)
    return torch.zeros(shape, dtype=dtype, device=_device(module))


def _cut(example: dict[str, Any]) -> dict[str, Any]:
    """The first prompt only, tokens shortened (or repeated) to the probing lengths, no masks."""
    inputs: dict[str, Any] = {}
    for name, given in example.items():
        if name in _TOKENS:
            n = _TOKENS[name]
            inputs[name] = given[:1, torch.arange(n) % given.shape[1]]
        elif isinstance(given, Tensor) and not name.endswith(("attention_mask", "_type_ids")):
            inputs[name] = given[:1]
        elif not isinstance(given, Tensor):
            inputs[name] = given
    return inputs
