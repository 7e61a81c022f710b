"""Singular values of the transports of chosen edges, in factored form (Theory §3)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.connection.walk import Weighting
from conwalk.errors import AbsentEdgeError
from conwalk.operators.fields import working_dtype


def edge_rank_limit(walk: ConnectionWalk) -> int:
    """Give the largest rank that a transport of the walk can have.

    Heads that share a value map read the same k directions, so it is value heads that count.

    Args:
        walk: any walk.

    Returns:
        ``min(d_in, d_out, value heads · k)``. Theory §3.
    """
    maps = walk.transports
    return min(maps.width_in, maps.width_out, maps.n_kv_heads * maps.value_width)


def edge_singular_values(
    walk: ConnectionWalk,
    queries: Int[Tensor, " edge"],
    keys: Int[Tensor, " edge"],
    weighting: Weighting = "uniform",
) -> Float[Tensor, "edge rank"]:
    """Compute the singular values of T[i,j] for the given edges.

    The factors of all heads side by side are brought to triangular form once; an edge then
    takes one small product and one SVD of at most (value heads · k) × (heads · k).

    Args:
        walk: any walk, gated ones included.
        queries: receivers i.
        keys: senders j.
        weighting: ``"uniform"``, ``"norm"`` or one positive number per head.

    Returns:
        Descending along the last axis, ``edge_rank_limit`` of them, in float32 or float64.
        Theory §3.

    Raises:
        AbsentEdgeError: an edge with P[i,j] = 0.
    """
    precision = working_dtype(walk.dtype)
    maps = walk.transports.to(precision)
    value = torch.linalg.qr(maps.value_columns, mode="r").R
    output = torch.linalg.qr(maps.output_rows.mT, mode="r").R.mT
    rows = output.unflatten(0, (maps.n_kv_heads, maps.group, maps.value_width))
    factors = _edge_factors(walk, queries, keys, weighting).to(precision)
    found = [
        torch.linalg.svdvals(value @ (rows * f[..., None]).sum(1).flatten(0, 1))
        for f in factors.unflatten(1, (maps.n_kv_heads, maps.group))
    ]
    return torch.stack(found)


def _edge_factors(
    walk: ConnectionWalk,
    queries: Int[Tensor, " edge"],
    keys: Int[Tensor, " edge"],
    weighting: Weighting,
) -> Float[Tensor, "edge head value"]:
    """Give what each edge does to each coordinate of each value: A s g / P."""
    attention = walk.attention[:, queries, keys]
    total = walk.head_weights(weighting) @ attention
    if bool((total == 0).any()):
        absent = int((total == 0).nonzero()[0])
        raise AbsentEdgeError(
            f"no edge from key {int(keys[absent])} to query {int(queries[absent])}: its weight is "
            "0, so it has no transport; choose edges where walk_matrix() is not 0"
        )
    factors = attention / total
    if walk.value_scale is not None:
        factors = factors * walk.value_scale[:, keys]
    if walk.output_gate is not None:
        return (factors[..., None] * walk.output_gate[:, queries]).transpose(0, 1)
    return factors.mT[..., None].expand(-1, -1, walk.transports.value_width)


def sample_edges(
    weights: Float[Tensor, "query key"], count: int, generator: torch.Generator
) -> tuple[Int[Tensor, " edge"], Int[Tensor, " edge"]]:
    """Draw edges with replacement, each as often as its weight says.

    Args:
        weights: nonnegative; edges of weight 0 are never drawn.
        count: how many to draw.
        generator: on the CPU; the same state gives the same edges.

    Returns:
        Receivers and senders; none of them where all weights are 0.
    """
    mass = weights.flatten().to("cpu", torch.float64).cumsum(0)
    count = count if float(mass[-1]) > 0 else 0
    points = torch.rand(count, generator=generator, dtype=torch.float64) * mass[-1]
    drawn = torch.searchsorted(mass, points, right=True).to(weights.device)
    return drawn // weights.shape[1], drawn % weights.shape[1]
