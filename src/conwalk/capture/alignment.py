"""What a linear map reads and puts out, in the order in which attention counts tokens."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.errors import CaptureError
from conwalk.models.interception import Attended
from conwalk.models.sites import AttentionSite

_MATRIX_AXES = 2


def by_group(
    t: Float[Tensor, "*position width"], groups: int, length: int, *, turned: bool = False
) -> Float[Tensor, "group token width"]:
    """Rows of a linear map as ``(group, token, width)``.

    Args:
        t: its input or output; positions may lie in one axis or in several, tokens first or not.
        groups: prompts, or windows of all prompts.
        length: tokens in each.
        turned: whether tokens come before prompts, where the shape alone does not say.

    Raises:
        CaptureError: there are more or fewer rows than that.
    """
    places = tuple(t.shape[:-1])
    if prod(places) != groups * length:
        raise CaptureError(
            f"a projection reads {prod(places)} positions, and attention counts {groups * length}"
        )
    if turned or (places == (length, groups) != (groups, length)):
        return t.reshape(length, groups, -1).transpose(0, 1)
    return t.reshape(groups, length, -1)


def joined(
    parts: Sequence[Float[Tensor, "..."]], groups: int, length: int, *, turned: bool = False
) -> Float[Tensor, "group token width"]:
    """The last of several inputs of a map, or all of them one after the other if that fits.

    Keys may be made of two sequences, each sent through the same projection.

    Raises:
        CaptureError: neither fits.
    """
    sizes = [prod(p.shape[:-1]) for p in parts]
    if sizes[-1] == groups * length or sum(sizes) != groups * length:
        return by_group(parts[-1], groups, length, turned=turned)
    each = [
        by_group(p, groups, size // groups, turned=turned)
        for p, size in zip(parts, sizes, strict=True)
    ]
    return torch.cat(each, 1)


def expanded(
    attention: Float[Tensor, "window head query key"],
) -> Float[Tensor, "head token token2"]:
    """Attention of separate windows as one matrix over all their tokens; one window as it is."""
    if len(attention) == 1:
        return attention[0]
    windows, heads, n, m = attention.shape
    whole = attention.new_zeros(heads, windows, n, windows, m)
    each = torch.arange(windows, device=attention.device)
    whole[:, each, :, each] = attention
    return whole.reshape(heads, windows * n, windows * m)


def with_row_factors(
    attention: Float[Tensor, "group head query key"],
    mixed: Float[Tensor, "group query head k"],
    value: Float[Tensor, "group kv_head key k"],
) -> Float[Tensor, "group head query key"]:
    """Weights times whatever factor each query of a head was multiplied by once it was mixed."""
    shared = value.repeat_interleave(attention.shape[1] // value.shape[1], 1)
    plain = (attention @ shared).transpose(1, 2)
    square = plain.square().sum(-1)
    # what mixed to 0 is 0 whatever its factor
    factor = torch.where(square > 0, (mixed * plain).sum(-1) / square, 1.0)
    return attention * factor.transpose(1, 2)[..., None]


def as_applied(site: AttentionSite, attended: Attended, value: Tensor) -> Attended:
    """Weights with the factors that the model applies to what they mixed."""
    if not site.rescaled_rows:
        return attended
    attention = with_row_factors(attended.attention, attended.mixed, value)
    return replace(attended, attention=attention)


def once_each(site: AttentionSite, value: Tensor) -> Tensor:
    """Values once for each value head, also where the model repeated them."""
    return value[:: value.shape[0] // site.n_kv_heads]


def tokens_first(site: AttentionSite, read: Tensor, mixed: Tensor) -> bool:
    """Whether rows that lie in one axis have tokens before prompts: which order shows the heads."""
    flat, groups, n = read.dim() == _MATRIX_AXES, mixed.shape[0], mixed.shape[1]
    known = site.output.gated or site.subtracted is not None
    if not flat or groups == 1 or n == 1 or known:
        return False
    order = site.output.reads.to(read.device)
    straight = by_group(read, groups, n)[..., order]
    return not torch.equal(straight, mixed)
