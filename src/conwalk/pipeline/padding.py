"""Prompts of different lengths in one pass: padded so that each is what it is alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from conwalk.models import inference

_MASKS = {"attention_mask": "", "decoder_attention_mask": "decoder_"}
_POSITIONS = "position_ids"
_UPCAST = (torch.float16, torch.bfloat16, torch.float32)


def padded(rows: Sequence[Sequence[int]], fill: int, device: torch.device) -> Tensor:
    """Rows of one length, filled up on the right.

    Args:
        rows: of different lengths.
        fill: what to fill up with; which number it is does not matter, masks say what it is.
        device: where to.

    Returns:
        Integers ``(row, longest)``.
    """
    longest = max(len(row) for row in rows)
    full = [[*row, *[fill] * (longest - len(row))] for row in rows]
    return torch.tensor(full, device=device)


def mask(lengths: Sequence[int], device: torch.device) -> Tensor:
    """Which places of :func:`padded` are tokens: 1 for those, made from lengths, never from ids."""
    return padded([[1] * n for n in lengths], 0, device)


def to_the_right(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Move padding that stands before the tokens of a prompt behind them.

    So every token has the position that it has in the prompt alone, whether the model counts
    positions from its inputs, from its mask, or not at all; and no row of the attention is without
    a key. Inputs that say their positions themselves are left as they are, and so are places that
    are masked between tokens.

    Args:
        inputs: of one pass.
    """
    moved = dict(inputs)
    if _POSITIONS in inputs:
        return moved
    for name, prefix in _MASKS.items():
        shifts = _leading(inputs.get(name))
        if shifts is None:
            continue
        batch, length = inputs[name].shape
        places = torch.arange(length, device=shifts.device)
        order = (places + shifts[:, None]) % length
        for key in _along(inputs, name, prefix):
            given = inputs[key]
            index = order.reshape(batch, length, *[1] * (given.dim() - 2)).expand_as(given)
            moved[key] = given.gather(1, index.to(given.device))
    return moved


def _leading(given: Any) -> Tensor | None:
    """How many places before the first token of each prompt; None where there is none."""
    if not isinstance(given, Tensor) or given.dim() != 2:
        return None
    shifts = (given != 0).to(torch.int8).argmax(1)
    return shifts if bool(shifts.any()) else None


def _along(inputs: Mapping[str, Any], name: str, prefix: str) -> list[str]:
    """The inputs that have one entry for each place of a mask, the mask included."""
    shape = inputs[name].shape
    own = [key for key in inputs if key.startswith("decoder_") == bool(prefix)]
    return [
        key for key in own if isinstance(inputs[key], Tensor) and inputs[key].shape[:2] == shape
    ]


def is_padded(inputs: Mapping[str, Any]) -> bool:
    """Whether any place of a pass is padding."""
    given = [inputs.get(name) for name in _MASKS]
    return any(isinstance(m, Tensor) and not bool(m.all()) for m in given)


def alone(inputs: Mapping[str, Any], prompt: int, batch: int) -> dict[str, Any]:
    """The inputs of one prompt of a pass, without the padding behind it."""
    single = {
        key: given[prompt : prompt + 1]
        if isinstance(given, Tensor) and given.dim() and given.shape[0] == batch
        else given
        for key, given in inputs.items()
    }
    for name, prefix in _MASKS.items():
        given = single.get(name)
        if isinstance(given, Tensor) and given.dim() == 2:
            last = int(given[0].nonzero().max()) + 1
            single |= {key: single[key][:, :last] for key in _along(single, name, prefix)}
    return single


def breaks(module: nn.Module, inputs: Mapping[str, Any]) -> bool:
    """Whether a model answers a padded pass with numbers that are none.

    A place whose every key is masked has no softmax. It is padding, and its row is left out; but in
    the next layer its NaN, times weight 0, is NaN for every token. Models of transformers put a
    lowest number there instead, which is one as long as it fits into the softmax's float32; so
    only others, and float64, are tried.

    Args:
        module: the model.
        inputs: of a padded pass.
    """
    ours = type(module).__module__.startswith("transformers.")
    if ours and inference.dtype_of(module) in _UPCAST:
        return False
    with inference.eager(module):
        returned = inference.forward(module, dict(inputs), logits=False)
    return any(bool(t.isnan().any()) for t in _tensors(returned))


def _tensors(returned: Any) -> list[Tensor]:
    if isinstance(returned, Tensor):
        return [returned]
    if isinstance(returned, Mapping):
        return [t for part in returned.values() for t in _tensors(part)]
    return [t for part in returned for t in _tensors(part)] if isinstance(returned, tuple) else []
