"""Are the transports, as the walk uses them, isometries of one scale? (Theory §2 c, §3)."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.connection.edges import edge_effective_ranks, edge_square_norms
from conwalk.operators.fields import working_dtype

# Numbers held at a time, so that they stay in the cache of one core.
_CHUNK = 1 << 18


class Moments(NamedTuple):
    """Sums over senders of the sizes of transports weighted by the walk, in float64.

    Attributes:
        weight: Σ_j P_ij over edges.
        second: Σ_j P_ij ‖T_ij‖_F².
        fourth: Σ_j P_ij ‖T_ijᵀ T_ij‖_F².
        apart: Σ_j P_ij ‖T_ij‖_F⁴ / R, what the fourth would be for isometries of any scales.
    """

    weight: Float[Tensor, " query"]
    second: Float[Tensor, " query"]
    fourth: Float[Tensor, " query"]
    apart: Float[Tensor, " query"]


def largest_rank(walk: ConnectionWalk) -> int:
    """Give the largest rank R that the transport of an edge can have.

    Heads that share a value head share what they can read.

    Args:
        walk: any walk.

    Returns:
        min(width_in, width_out, k · value heads).
    """
    transports = walk.transports
    read = transports.n_kv_heads * transports.value_width
    return min(transports.width_in, transports.width_out, read)


def moments(walk: ConnectionWalk) -> Moments:
    """Sum the sizes of the transports of each receiver, from G and K alone (Theory §3).

    Args:
        walk: any rows of a walk without an output gate; signs count by their size.

    Returns:
        The moments, for the uniform walk matrix.

    Raises:
        ShapeError: the walk has an output gate.
    """
    squares, ranks = edge_square_norms(walk), edge_effective_ranks(walk)
    return _moments(walk, squares.nan_to_num(), ranks.nan_to_num())


def square_sums(walk: ConnectionWalk) -> Float[Tensor, " query"]:
    """Sum P_ij ‖T_ij‖_F² over senders alone, in a fraction of the time of all moments.

    Args:
        walk: any rows of a walk without signs or output gate.

    Returns:
        The ``second`` of ``moments``.
    """
    gram = walk.transports.gram()
    matrix = walk.walk_matrix().to(gram)
    step = max(1, _CHUNK // (walk.n_heads * walk.n_keys))
    sums: list[Tensor] = []
    for start in range(0, walk.n_queries, step):
        gates = walk.attention[:, start : start + step].to(gram)
        edge = matrix[start : start + step]
        ratio = gates / torch.where(edge == 0, torch.ones_like(edge), edge)
        if walk.value_scale is not None:
            ratio = ratio * walk.value_scale[:, None]
            gates = gates * walk.value_scale[:, None]
        sums.append((gates * (gram @ ratio.flatten(1)).view_as(gates)).sum((0, 2)))
    return torch.cat(sums).double()


def moments_by_chance(walk: ConnectionWalk) -> Moments:
    """Give the moments that independent Gaussian head maps would have under the same gates.

    Heads that read one value head count as one: H₂ = (Σ q)² / Σ q² for the sums q of squared
    gates over the heads of each value head, and 1/r_eff = 1/(k H₂) + 2/d.

    Args:
        walk: any rows of a walk.

    Returns:
        The moments, for maps of norm 1.
    """
    precision = working_dtype(walk.dtype)
    matrix = walk.walk_matrix().to(precision)
    gates = walk.attention.to(precision) / torch.where(matrix == 0, torch.inf, matrix)
    if walk.value_scale is not None:
        gates = gates * walk.value_scale[:, None]
    shared = gates.square().unflatten(0, (walk.transports.n_kv_heads, -1)).sum(1)
    squares = shared.sum(0)
    heads = squares.square() / shared.square().sum(0)
    transports = walk.transports
    width = 2 / (1 / transports.width_in + 1 / transports.width_out)
    ranks = 1 / (1 / (transports.value_width * heads) + 2 / width)
    return _moments(walk, squares, ranks.nan_to_num())


def _moments(walk: ConnectionWalk, squares: Tensor, ranks: Tensor) -> Moments:
    weight = walk.walk_matrix().to(squares).abs()
    second = weight * squares
    fourth = second * squares
    per_rank = fourth / torch.where(ranks == 0, torch.inf, ranks)
    rows = (weight, second, per_rank, fourth / largest_rank(walk))
    return Moments(*(row.sum(-1).double() for row in rows))


def isometry_defect(rows: Moments, rank: int) -> Float[Tensor, ""]:
    """Measure how far the transports are from isometries of rank R and one common scale.

    It is min over s of Σ W_ij ‖T_ijᵀT_ij − s²Π_ij‖² / Σ W_ij ‖T_ijᵀT_ij‖², with Π_ij a projection
    of rank R onto directions that hold those T_ij reads.

    Args:
        rows: moments of all rows.
        rank: R.

    Returns:
        1 − (Σ W‖T‖²)² / (R Σ W Σ W‖TᵀT‖²), in [0, 1]; 0 if and only if every present edge has
        T_ijᵀT_ij = s²Π_ij; 1 where all transports are 0.
    """
    kept = rows.second.sum().square() / (rank * rows.weight.sum() * rows.fourth.sum())
    return 1 - kept.nan_to_num().clamp(max=1.0)


def shape_defect(rows: Moments) -> Float[Tensor, ""]:
    """Measure the same with a scale for each edge: 1 − Σ W‖T‖⁴/R / Σ W‖TᵀT‖².

    Args:
        rows: moments of all rows.

    Returns:
        A number between 0 and ``isometry_defect``.
    """
    return 1 - (rows.apart.sum() / rows.fourth.sum()).nan_to_num().clamp(max=1.0)


def common_scale(
    weight: Float[Tensor, "*lead query"], second: Float[Tensor, "*lead query"], rank: int
) -> Float[Tensor, "*lead"]:
    """Give the scale s that attains ``isometry_defect``: s² = Σ W‖T‖² / (R Σ W).

    Args:
        weight: Σ_j P_ij of all rows.
        second: Σ_j P_ij ‖T_ij‖_F² of all rows.
        rank: R.

    Returns:
        s >= 0; 0 where all transports are 0, or there is no edge.
    """
    total = rank * weight.sum(-1)
    return (second.sum(-1) / torch.where(total == 0, torch.inf, total)).sqrt()
