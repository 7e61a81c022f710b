"""Attention as simple kernels: what is left when tokens, positions or content no longer matter.

A key is *present* in a row if any head gives it weight there; presence, which is the mask of
the layer, and the sum of every row of every head are kept by all of them. Theory §4.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from conwalk.metrics import LayerData
from conwalk.nulls.replace import with_attention

Attention = Float[Tensor, "head query key"]


def shuffled_tokens(data: LayerData, generator: torch.Generator) -> LayerData:
    """Permute the senders, in every row and head alike, within what the row can see.

    One random order of the tokens is drawn. In each row, the weights of its present keys are
    read in that order and laid out again on the same keys in their natural order. Without a
    mask that is one permutation of the columns; with one, the permutation that the order
    induces on the present keys. Weights of all heads move together, so that the gates of edges
    are kept too.

    Args:
        data: one layer of one prompt.
        generator: on the CPU.

    Returns:
        The layer with its senders permuted. Theory §4.
    """
    attention = data.walk.attention
    present = _present(attention)
    n_keys = attention.shape[-1]
    order = torch.randperm(n_keys, generator=generator).to(attention.device)
    natural = torch.arange(n_keys, device=attention.device)
    sources = _sorted_first(present, order)
    places = _sorted_first(present, natural)
    shape = attention.shape
    moved = attention.gather(-1, sources.expand(shape))
    return with_attention(
        data, torch.zeros_like(attention).scatter(-1, places.expand(shape), moved)
    )


def position_only(data: LayerData, _generator: torch.Generator | None = None) -> LayerData:
    """Replace each head's weights by their mean over all edges of the same offset i − j.

    Rows are then scaled back to their sums.

    Args:
        data: one layer of one prompt.
        _generator: not used.

    Returns:
        The layer with the kernel that knows positions only. Theory §4.
    """
    attention = data.walk.attention
    present = _present(attention)
    n_queries, n_keys = present.shape
    rows = torch.arange(n_queries, device=present.device)[:, None]
    offset = rows - torch.arange(n_keys, device=present.device) + n_keys - 1
    flat, size = offset.flatten(), n_queries + n_keys - 1
    count = attention.new_zeros(size).index_add(0, flat, present.flatten().to(attention.dtype))
    total = attention.new_zeros(len(attention), size).index_add(1, flat, attention.flatten(1))
    mean = (total / count.clamp(min=1))[:, offset] * present
    return with_attention(data, _with_row_sums(mean, attention))


def uniform(data: LayerData, _generator: torch.Generator | None = None) -> LayerData:
    """Spread each row evenly over its present keys.

    Args:
        data: one layer of one prompt.
        _generator: not used.

    Returns:
        The layer with the (causal) uniform kernel. Theory §4.
    """
    attention = data.walk.attention
    present = _present(attention).to(attention.dtype).expand_as(attention)
    return with_attention(data, _with_row_sums(present, attention))


def uniform_with_sink(data: LayerData, _generator: torch.Generator | None = None) -> LayerData:
    """Keep what each row gives to token 0; spread the rest evenly over its other present keys.

    A row that sees token 0 alone keeps it all there.

    Args:
        data: one layer of one prompt.
        _generator: not used.

    Returns:
        The layer with the uniform-plus-sink kernel. Theory §4.
    """
    attention = data.walk.attention
    others = _present(attention).to(attention.dtype).expand_as(attention).clone()
    others[..., 0] = 0.0
    rest = torch.cat([torch.zeros_like(attention[..., :1]), attention[..., 1:]], -1)
    kernel = _with_row_sums(others, rest)
    kernel[..., 0] = attention[..., 0]
    return with_attention(data, kernel)


def _present(attention: Attention) -> Bool[Tensor, "query key"]:
    return (attention != 0).any(0)


def _sorted_first(present: Bool[Tensor, "query key"], rank: Tensor) -> Tensor:
    """The keys of each row by rank, the present ones before all others."""
    return torch.where(present, rank, rank + len(rank)).argsort(-1)


def _with_row_sums(kernel: Attention, like: Attention) -> Attention:
    """Scale rows to the sums of other rows; rows without weight stay without."""
    total = kernel.sum(-1, keepdim=True)
    scale = like.sum(-1, keepdim=True) / torch.where(total == 0, torch.ones_like(total), total)
    return kernel * scale
