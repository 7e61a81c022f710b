"""The walk of many heads: head weights, walk matrix and gates (Theory §1)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import tolerance
from conwalk.connection.transport import HeadTransports
from conwalk.errors import SelectionError, ShapeError
from conwalk.operators.fields import Array, as_tensor, require_axes, require_shape, working_dtype

Weighting = str | Array


def head_weights(weighting: Weighting, transports: HeadTransports) -> Float[Tensor, " head"]:
    """Resolve a weighting to the weights ω of the heads (Theory §1).

    A head without any norm keeps a weight at the level of rounding, since ω must be positive
    for its affine part to be carried.

    Args:
        weighting: ``"uniform"`` (1/H), ``"norm"`` (proportional to ‖M[h]‖_F), or one positive
            number per head.
        transports: the maps of the heads.

    Returns:
        ω > 0 with sum 1, in the dtype of the transports.

    Raises:
        SelectionError: an unknown name.
        ShapeError: not one positive finite number per head.
    """
    if not isinstance(weighting, str):
        weights = as_tensor("weighting", weighting)
        require_axes("weighting", weights, "head")
        require_shape("weighting", weights, (transports.n_heads,), "the number of heads")
        if not bool((weights > 0).all()):
            raise ShapeError("weighting holds numbers that are not positive: give one > 0 per head")
    elif weighting == "uniform":
        weights = torch.ones(transports.n_heads)
    elif weighting == "norm":
        norms = transports.norms()
        floor = norms.max() * tolerance.rounding(norms.dtype)
        weights = norms.clamp_min(floor) if floor > 0 else torch.ones_like(norms)
    else:
        raise SelectionError(f"weighting {weighting!r} is unknown: choose 'uniform' or 'norm'")
    weights = weights.to(transports.device, working_dtype(transports.dtype))
    return (weights / weights.sum()).to(transports.dtype)


def walk_matrix(
    attention: Float[Tensor, "head query key"], weights: Float[Tensor, " head"]
) -> Float[Tensor, "query key"]:
    """Average the attention of the heads: P[i,j] = Σ_h ω[h] A[h,i,j] (Theory §1).

    Args:
        attention: weights as applied to the values.
        weights: ω, positive with sum 1.

    Returns:
        P; its rows sum to 1 where all rows of all heads do.
    """
    return torch.tensordot(weights, attention, dims=1)


def gate_field(
    attention: Float[Tensor, "head query key"], weights: Float[Tensor, " head"]
) -> Float[Tensor, "head query key"]:
    """Give the share of each head in each edge: γ[h,i,j] = ω[h] A[h,i,j] / P[i,j] (Theory §1).

    Args:
        attention: weights as applied to the values.
        weights: ω, positive with sum 1.

    Returns:
        γ, a point of the simplex on every present edge (for weights >= 0); 0 on absent edges.
    """
    walk = walk_matrix(attention, weights)
    safe = torch.where(walk == 0, torch.ones_like(walk), walk)
    gates = attention * weights[:, None, None]
    gates /= safe
    return gates.masked_fill_(walk == 0, 0.0)
