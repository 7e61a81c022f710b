"""The inputs of the tiny forward passes that discover a model's layout."""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from conwalk.errors import CaptureError
from conwalk.models import offload
from conwalk.models.sites import Side

_LENGTHS = ((3, 4), (32, 21))
_TOKENS: dict[str, Side] = {"input_ids": "source", "decoder_input_ids": "target"}
_MASKS = ("attention_mask", "decoder_attention_mask")

Inputs = dict[str, Any]


def candidates(module: nn.Module, example: Inputs | None = None) -> Iterator[Inputs]:
    """Inputs of passes that may show the layout, the shortest first; the example whole at last.

    Args:
        module: the model.
        example: inputs it is going to be given, or None.

    Raises:
        CaptureError: the model reads neither tokens nor pixels and no example was given.
    """
    for source, target in _LENGTHS:
        yield tiny(module, example, source, target)
    if example:
        yield first_prompt(example)


def lengths(inputs: Inputs) -> dict[int, Side]:
    """Which token sequence has which length in the inputs of a pass."""
    given: list[tuple[int, Side]] = [
        (inputs[name].shape[1], side) for name, side in _TOKENS.items() if name in inputs
    ]
    found = dict(given)
    return found if len(found) == len(given) else {}


def tiny(
    module: nn.Module, example: Inputs | None = None, source: int = 3, target: int = 4
) -> Inputs:
    """Inputs of a pass just long enough to show the layout, batch of 1.

    Args:
        module: the model.
        source: tokens of the text.
        target: tokens of a second text that is written, where there is one.
        example: inputs it is going to be given; token sequences are cut from them, everything
            else is taken for the first element of the batch. Tokens beside an image or a
            recording stay whole: some of them stand for its parts.

    Raises:
        CaptureError: the model reads neither tokens nor pixels and no example was given.
    """
    main = getattr(module, "main_input_name", "input_ids")
    if example:
        return _cut(example, {"input_ids": source, "decoder_input_ids": target})
    if main == "input_ids":
        inputs = {"input_ids": _tokens(module, source)}
        if getattr(getattr(module, "config", None), "is_encoder_decoder", False) and (
            "decoder_input_ids" in inspect.signature(module.forward).parameters
        ):
            inputs["decoder_input_ids"] = _tokens(module, target)
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
    size = getattr(config, "image_size", None)
    if size is None:
        raise CaptureError(
            f"{type(module).__name__} does not say what size its images have: pass one example of "
            "its inputs, so that its attention can be found"
        )
    height, width = size if isinstance(size, list | tuple) else (size, size)
    dtype = next(p.dtype for p in module.parameters() if p.is_floating_point())
    shape = (1, getattr(config, "num_channels", 3), height, width)
    return torch.zeros(shape, dtype=dtype, device=_device(module))


def batch_of(inputs: dict[str, Any]) -> int:
    """Number of prompts in the inputs of one pass; 1 where patches of images come as one long row.

    Raises:
        CaptureError: there is no tensor among the inputs.
    """
    sizes = {k: t.shape[0] for k, t in inputs.items() if isinstance(t, Tensor) and t.dim()}
    if not sizes:
        raise CaptureError(f"the inputs {sorted(inputs)} hold no tensor: pass input_ids or pixels")
    tokens = next((sizes[name] for name in _TOKENS if name in sizes), None)
    alike = len(set(sizes.values())) == 1
    return tokens or (next(iter(sizes.values())) if alike else 1)


def first_prompt(example: Inputs) -> Inputs:
    """The first prompt only, as it is."""
    batch = batch_of(example)
    return {
        k: v[:1] if isinstance(v, Tensor) and v.dim() and v.shape[0] == batch else v
        for k, v in example.items()
    }


def _cut(example: Inputs, wanted: dict[str, int]) -> Inputs:
    """The first prompt only, tokens shortened (or repeated) to the wanted lengths, no masks."""
    inputs = first_prompt(example)
    first = {k: t for k, t in inputs.items() if isinstance(t, Tensor)}
    mixed = any(t.is_floating_point() for t in first.values())
    for name, n in wanted.items():
        if name not in inputs or (mixed and name == "input_ids"):
            continue
        length = inputs[name].shape[1]
        beside = [k for k, t in first.items() if t.dim() > 1 and t.shape[1] == length]
        for k in beside if name == "input_ids" else [name]:
            inputs[k] = first[k][:, torch.arange(n) % length]
    return {k: v for k, v in inputs.items() if k not in _MASKS}
