"""The two calls of a differential attention as one application of signed weights."""

import torch
from torch import Tensor

from conwalk.errors import CaptureError
from conwalk.models.interception import Attended
from conwalk.models.sites import AttentionSite


def joined(
    site: AttentionSite, calls: tuple[Attended, Attended], values: tuple[Tensor, Tensor]
) -> tuple[Attended, Tensor]:
    """Put two calls together.

    Args:
        site: where; its ``subtracted`` is the multiple of the second half of heads.
        calls: what both calls produced; their weights are the same.
        values: the values of both, ``(group, value head, key, k)``.

    Returns:
        Signed weights ``(group, head, query, key)`` with what they mix, twice as wide, and the
        values they apply to; half as many heads as a call has.

    Raises:
        CaptureError: the two calls did not use the same weights.
    """
    first, second = calls
    if not torch.equal(first.attention, second.attention):
        raise CaptureError(f"{site.name}: its two attention calls do not use the same weights")
    attention = _combined(first.attention, 1, site.subtracted or 0.0)
    mixed = _combined(torch.cat([first.mixed, second.mixed], -1), 2, site.subtracted or 0.0)
    both = torch.cat(values, -1)
    # halves of heads share values; a single value head serves both
    return Attended(mixed, attention), both[:, : max(both.shape[1] // 2, 1)]


def normalised(attended: Attended, read: Tensor) -> Attended:
    """The weights with the norm that each head went through on its way to the output projection.

    Args:
        attended: signed weights and what they mixed.
        read: what the output projection read, ``(group, query, head, k)``: mixed values times one
            factor for each query and head.
    """
    square = attended.mixed.square().sum(-1)
    # what mixed to 0 is 0 whatever its factor
    factor = torch.where(square > 0, (read * attended.mixed).sum(-1) / square, 1.0)
    weights = attended.attention * factor.transpose(1, 2)[..., None]
    return Attended(attended.mixed * factor[..., None], weights)


def _combined(t: Tensor, axis: int, multiple: float) -> Tensor:
    plus, minus = t.chunk(2, axis)
    return plus + multiple * minus
