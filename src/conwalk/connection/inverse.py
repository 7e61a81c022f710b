"""Does the transport back undo the transport there: T_ji against T_ijᵀ (Theory §2 c)."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.connection.transport import HeadTransports
from conwalk.operators.fields import working_dtype


class InverseDefects(NamedTuple):
    """Mean relative squared distances of transports from what detailed balance asks for.

    Attributes:
        pairs: of T_ji from T_ijᵀ over pairs of tokens with both edges; NaN without a pair.
        loops: of T_ii from T_iiᵀ over self-loops; NaN without a loop.
    """

    pairs: float
    loops: float


def cross_gram(transports: HeadTransports) -> Float[Tensor, "head head"]:
    """Give the inner products of head maps with transposed head maps, from k×k matrices.

    Args:
        transports: the maps of the heads, from a space to itself.

    Returns:
        X[h,g] = <M[h]ᵀ, M[g]> = tr(M[h] M[g]), symmetric, in float32 or float64.
    """
    precision = working_dtype(transports.dtype)
    n_heads, n_kv, value = transports.n_heads, transports.n_kv_heads, transports.value_width
    rows, columns = transports.output_rows.to(precision), transports.value_columns.to(precision)
    # R[h,b] = W_O[h] W_V[b]
    products = (rows @ columns).view(n_heads, value, n_kv, value).transpose(1, 2)
    grouped = products.unflatten(0, (n_kv, -1))
    pairs = torch.einsum("aibkl,bjalk->aibj", grouped, grouped)
    return pairs.reshape(n_heads, n_heads)


def inverse_defects(walk: ConnectionWalk) -> InverseDefects:
    """Compare the transport of each edge with the transpose of the one that runs back.

    Both are averaged over edges weighted by the uniform walk matrix; neither needs a d×d matrix.

    Args:
        walk: any walk.

    Returns:
        ‖T_ji − T_ijᵀ‖² / (‖T_ij‖² + ‖T_ji‖²) in [0, 2]: 0 is consistent, 1 unrelated, 2 opposite.
        NaN where the walk is rectangular, signed or gated.
    """
    if not walk.is_square or walk.output_gate is not None or bool((walk.attention < 0).any()):
        return InverseDefects(torch.nan, torch.nan)
    both = _present_both_ways(walk)
    i, j = both.nonzero(as_tuple=True)
    weight = walk.walk_matrix().to(working_dtype(walk.dtype))
    there, back = _coefficients(walk, i, j), _coefficients(walk, j, i)
    gram, cross = walk.transports.gram(), cross_gram(walk.transports)
    sizes = _form(there, gram, there) + _form(back, gram, back)
    shared = 2 * _form(there, cross, back)
    defect = 1 - shared / torch.where(sizes == 0, torch.ones_like(sizes), sizes)
    defect = torch.where(sizes == 0, torch.zeros_like(defect), defect).clamp(0, 2)
    pair = i != j
    edge = weight[i, j] + weight[j, i]
    return InverseDefects(_mean(defect, edge * pair), _mean(defect, edge * ~pair))


def _present_both_ways(walk: ConnectionWalk) -> Tensor:
    """Mark the pairs i >= j with both edges."""
    present = (walk.attention != 0).any(0)
    return (present & present.mT).tril()


def _coefficients(walk: ConnectionWalk, i: Tensor, j: Tensor) -> Float[Tensor, "head edge"]:
    """Give a with T_ij = Σ_h a[h] M[h]."""
    weights = walk.attention[:, i, j].to(working_dtype(walk.dtype))
    ratio = weights / weights.mean(0)
    return ratio if walk.value_scale is None else ratio * walk.value_scale[:, j]


def _form(
    left: Float[Tensor, "head edge"],
    matrix: Float[Tensor, "head head"],
    right: Float[Tensor, "head edge"],
) -> Float[Tensor, " edge"]:
    return (left * (matrix @ right)).sum(0)


def _mean(values: Float[Tensor, " edge"], weights: Float[Tensor, " edge"]) -> float:
    """Average with weights; NaN where there is none."""
    total = weights.double().sum()
    return float((values.double() @ weights.double()) / total) if total > 0 else torch.nan
