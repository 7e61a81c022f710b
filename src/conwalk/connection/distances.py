"""How far apart two effective graphs are, each function over any batch of pairs (Theory §4)."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from conwalk import tolerance

# Numbers held at a time: a few MB, which stay in the cache of one core.
_CHUNK = 1 << 18

Distance = Callable[[Tensor, Tensor], Tensor]
"""Two batches of objects of one kind, which broadcast, to a distance for each pair."""


def pairwise(
    distance: Distance, objects: Float[Tensor, "layer *rest"]
) -> Float[Tensor, "layer layer"]:
    """Compare every layer with every layer.

    Args:
        distance: any symmetric function of this module.
        objects: what it compares.

    Returns:
        The symmetric matrix of distances.
    """
    n_layers = len(objects)
    rows = [distance(objects[layer], objects[layer:]) for layer in range(n_layers)]
    upper = torch.stack([pad(row, (n_layers - len(row), 0)) for row in rows])
    return upper + upper.mT


def adjacent(distance: Distance, objects: Float[Tensor, "layer *rest"]) -> Float[Tensor, " layer"]:
    """Compare every layer with the next.

    Args:
        distance: any function of this module.
        objects: what it compares.

    Returns:
        At l the distance from l to l + 1; NaN at the last layer.
    """
    steps = one_by_one(distance, objects[:-1], objects[1:])
    return pad(steps, (0, 1), value=torch.nan)


def one_by_one(
    distance: Distance,
    first: Float[Tensor, "layer *rest"],
    second: Float[Tensor, "#layer *rest"],
) -> Float[Tensor, " layer"]:
    """Compare layer by layer, a few at a time, so that what is in flight stays small.

    Args:
        distance: any function of this module.
        first: what it compares.
        second: as many, or one.

    Returns:
        The distance at each layer.
    """
    if not len(first):
        return first.new_empty(0)
    size = max(1, _CHUNK // first[0].numel())
    others = second.expand_as(first)
    return torch.cat(
        [distance(*pair) for pair in zip(first.split(size), others.split(size), strict=True)]
    )


def total_variation(
    first: Float[Tensor, "*#batch query key"], second: Float[Tensor, "*#batch query key"]
) -> Float[Tensor, "*batch"]:
    """Average the total variation of the rows: mean_i ½ Σ_j |P_ij − Q_ij| (Theory §4).

    Args:
        first: graphs with rows of sum 1 (or less, where there is a leak).
        second: as many graphs, or one.

    Returns:
        In [0, 1]; rows that are empty in both graphs do not count, and without any row it is 0.
    """
    gap = (first - second).abs().sum((-2, -1))
    rows = (_filled(first) | _filled(second)).sum(-1)
    return _per_row(gap, rows)


def total_variations(
    graphs: Float[Tensor, "layer query key"],
) -> Float[Tensor, "layer layer"]:
    """Compute the mean row total variation between all pairs, block by block of rows.

    Args:
        graphs: graphs with rows of sum 1 (or less).

    Returns:
        The symmetric matrix of ``total_variation``, 0 on the diagonal.
    """
    n_layers, _, n_keys = graphs.shape
    gap = torch.zeros(n_layers, n_layers, dtype=torch.float64, device=graphs.device)
    for block in graphs.split(max(1, _CHUNK // (n_layers * n_keys)), dim=1):
        rows = block.contiguous()
        for layer in range(n_layers):
            gap[layer, layer:] += (rows[layer:] - rows[layer]).abs_().sum((-2, -1))
    filled = _filled(graphs)
    both = (filled[:, None] | filled).sum(-1)
    return _per_row(gap + gap.triu(1).mT, both).to(graphs.dtype)


def _filled(graph: Float[Tensor, "*batch query key"]) -> Tensor:
    """Which rows hold anything."""
    return graph.sum(-1) != 0


def _per_row(gap: Tensor, rows: Tensor) -> Tensor:
    return (gap / (2 * rows.clamp(min=1))).clamp(max=1.0)


def frobenius(
    first: Float[Tensor, "*#batch query key"], second: Float[Tensor, "*#batch query key"]
) -> Float[Tensor, "*batch"]:
    """Compute ‖P − Q‖_F >= 0 (Theory §4).

    Args:
        first: matrices.
        second: as many matrices, or one.

    Returns:
        Distances in the units of the matrices.
    """
    return (first - second).square().sum((-2, -1)).sqrt()


def relative_frobenius(
    first: Float[Tensor, "*#batch query key"], second: Float[Tensor, "*#batch query key"]
) -> Float[Tensor, "*batch"]:
    """Compute ‖P − Q‖_F over the root mean square of ‖P‖_F and ‖Q‖_F (Theory §4).

    Args:
        first: matrices.
        second: as many matrices, or one.

    Returns:
        In [0, 2], and in [0, √2] for nonnegative matrices; 0 between zero matrices.
    """
    gap = (first - second).square().sum((-2, -1))
    size = (first.square().sum((-2, -1)) + second.square().sum((-2, -1))) / 2
    return relative_distance(gap, size)


def relative_distance(
    gap: Float[Tensor, "*batch"], size: Float[Tensor, "*batch"]
) -> Float[Tensor, "*batch"]:
    """Turn a squared distance and the mean of the squared sizes into a relative distance.

    Args:
        gap: squared distances; rounding may have left them below 0.
        size: (‖P‖² + ‖Q‖²) / 2.

    Returns:
        √(gap / size) in [0, 2]; 0 where both are zero.
    """
    ratio = gap.clamp(min=0) / torch.where(size == 0, torch.ones_like(size), size)
    return ratio.sqrt().clamp(max=2.0)


def relative_to_uniform(
    distance: Float[Tensor, "*batch"],
    first: Float[Tensor, "*batch"],
    second: Float[Tensor, "*batch"],
) -> Float[Tensor, "*batch"]:
    """Divide a distance by the mean distance of both ends to the uniform kernel (Theory §4).

    Near-uniform graphs are near each other whatever they are; here that does not help them.

    Args:
        distance: between two graphs.
        first: of the one to the uniform kernel.
        second: of the other to the uniform kernel.

    Returns:
        At most 2 where the distance is a metric and both graphs have one uniform kernel (the
        triangle inequality); about √2 for graphs that leave it in unrelated directions; 0 where
        both are uniform up to rounding.
    """
    scale = (first + second) / 2
    flat = scale <= tolerance.rounding(scale.dtype)
    ratio = distance / torch.where(flat, torch.ones_like(scale), scale)
    return torch.where(flat, torch.zeros_like(ratio), ratio)
