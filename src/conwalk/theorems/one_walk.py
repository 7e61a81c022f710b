"""Many heads are one walk with edge-dependent transports (Theory §1)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection import ConnectionWalk
from conwalk.theorems.theorem import (
    Theorem,
    head_sizes,
    in_double,
    ratio,
    rounding_bound,
    worst_row,
)


def residual(
    walk: ConnectionWalk,
    x: Float[Tensor, "key width_in"],
    weighting: str = "uniform",
    samples: int = 4,
    seed: int = 0,
) -> float:
    """Compare Σ_j P[i,j] (x_j T[i,j] + t[i,j]) + b_O with the sum of the heads.

    All edges are compared through walk matrix and gates; a few edges also through their
    written out transports. Signed weights that cancel on an edge leave it without a transport
    though heads send along it: such a walk has no one-walk form, and the residual shows it.

    Args:
        walk: any walk.
        x: a field of its domain.
        weighting: ``"uniform"`` or ``"norm"``.
        samples: how many edges are compared through written out transports.
        seed: which edges these are.

    Returns:
        The largest relative difference found, in float64.
    """
    walk, x = in_double(walk, x)
    return max(
        _through_gates(walk, x, weighting),
        _off_simplex(walk, weighting),
        *(
            _through_transport(walk, x, i, j, weighting)
            for i, j in _present_edges(walk, weighting, samples, seed)
        ),
    )


def _through_gates(walk: ConnectionWalk, x: Tensor, weighting: str) -> float:
    """Compare the whole output, each edge split into its weight and its gates."""
    split = walk.walk_matrix(weighting) * walk.gate_field(weighting)
    attention = split / walk.head_weights(weighting)[:, None, None]
    one = ConnectionWalk.from_transports(
        attention,
        walk.transports,
        walk.b_O,
        value_scale=walk.value_scale,
        output_gate=walk.output_gate,
    )
    heads = torch.stack([head(x) for head in walk.heads]).sum(0)
    heads = heads if walk.b_O is None else heads + walk.b_O
    return worst_row(one(x) - heads, head_sizes(walk, x))


def _off_simplex(walk: ConnectionWalk, weighting: str) -> float:
    """Measure how far the gates of the present edges are from summing to 1."""
    gates = walk.gate_field(weighting)
    present = walk.walk_matrix(weighting) != 0
    error = (gates.sum(0) - 1)[present]
    size = gates.abs().sum(0)[present]
    return float((error.abs() / size).max()) if present.any() else 0.0


def _present_edges(
    walk: ConnectionWalk, weighting: str, samples: int, seed: int
) -> list[tuple[int, int]]:
    edges = walk.walk_matrix(weighting).nonzero().cpu()
    order = torch.randperm(len(edges), generator=torch.Generator().manual_seed(seed))
    return [(int(i), int(j)) for i, j in edges[order[:samples]]]


def _through_transport(walk: ConnectionWalk, x: Tensor, i: int, j: int, weighting: str) -> float:
    """Compare what goes along one edge, by its transport and head by head."""
    weight = walk.walk_matrix(weighting)[i, j]
    moved = x[j] @ walk.transport(i, j, weighting) + walk.transport_affine(i, j, weighting)
    heads = torch.stack([_along(walk, x, head, i, j) for head in range(walk.n_heads)])
    difference = torch.linalg.vector_norm(weight * moved - heads.sum(0))
    return ratio(float(difference), float(torch.linalg.vector_norm(heads, dim=-1).sum()))


def _along(
    walk: ConnectionWalk, x: Tensor, head: int, i: int, j: int
) -> Float[Tensor, " width_out"]:
    """Send x_j to i through one head, step by step."""
    transports = walk.transports
    source = head // transports.group
    value = x[j] @ transports.W_V[source]
    if transports.b_V is not None:
        value = value + transports.b_V[source]
    if walk.value_scale is not None:
        value = value * walk.value_scale[head, j]
    if walk.output_gate is not None:
        value = value * walk.output_gate[head, i]
    return (walk.attention[head, i, j] * value) @ transports.W_O[head]


THEOREM = Theorem(
    name="one walk",
    statement="Σ_h Σ_j A[h,i,j] (x_j M[h] + c[h]) = Σ_j P[i,j] (x_j T[i,j] + t[i,j])",
    reference="Theory §1; arXiv 2607.10677",
    residual=residual,
    bound=rounding_bound,
)
