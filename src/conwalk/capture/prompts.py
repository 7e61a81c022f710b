"""Which positions of a padded batch are tokens."""

from typing import Any

import torch
from torch import Tensor

from conwalk.errors import CaptureError
from conwalk.models.probe import batch_of as batch_size
from conwalk.models.sites import AttentionSite, Side

__all__ = ["Positions", "batch_size", "on", "pick", "rows"]

_MASKS: dict[Side, str] = {"source": "attention_mask", "target": "decoder_attention_mask"}
_MASK_AXES = 2


class Positions:
    """The positions of each prompt that hold tokens, for both sides of a site.

    Masks come from what the model was given, never from token ids.
    """

    def __init__(self, inputs: dict[str, Any]) -> None:
        given = {side: inputs.get(name) for side, name in _MASKS.items()}
        self._masks = {s: m for s, m in given.items() if m is not None and not bool(m.all())}

    def of(
        self, site: AttentionSite, prompt: int, lengths: tuple[int, int]
    ) -> tuple[Tensor | None, Tensor | None]:
        """Indices of the queries and of the keys of ``prompt`` at ``site``; None for all.

        Raises:
            CaptureError: the batch is padded and the site's positions are not those of the mask.
        """
        queries, keys = zip(site.sides, lengths, strict=True)
        return self._side(site, *queries, prompt), self._side(site, *keys, prompt)

    def _side(self, site: AttentionSite, side: Side, length: int, prompt: int) -> Tensor | None:
        mask = self._masks.get(side)
        if mask is not None and mask.dim() == _MASK_AXES and mask.shape[1] == length:
            return None if bool(mask[prompt].all()) else mask[prompt].nonzero().flatten()
        if mask is None and (side != "other" or not self._masks):
            return None
        raise CaptureError(
            f"{site.name}: {length} positions do not match the padding mask, so padding cannot be "
            "told from tokens; analyse the prompts one at a time (--batch-size 1)"
        )


def pick(t: Tensor, axis: int, positions: Tensor | None) -> Tensor:
    """The given positions of one axis, without a copy where all are wanted."""
    return t if positions is None else t.index_select(axis, positions.to(t.device))


def rows(t: Tensor, batch: int, length: int) -> Tensor:
    """A linear's input or output as ``(batch, position, width)``, also where it was flattened."""
    return t if t.dim() == 3 else t.reshape(batch, length, t.shape[-1])


def on(device: torch.device, inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs on the device of the model."""
    return {k: v.to(device) if isinstance(v, Tensor) else v for k, v in inputs.items()}
