"""Frustration: how far the best gauge is from flattening a connection (Theory §5).

Bandeira, Singer & Spielman (2013): over orthogonal gauges g,

    ν(g) = ½ Σ_ij W_ij ‖g_i − g_j O_ij‖² / (r Σ_i D_i)  =  1 − Σ_ij W_ij ⟨g_j O_ij, g_i⟩ / (r Σ D_i)

is 0 for some g if and only if the connection is flat. Its smallest value is at least the mean of
the r smallest eigenvalues of the normalised connection Laplacian.
"""

from dataclasses import dataclass
from math import isnan

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import tolerance
from conwalk.connection.symmetrised import ConnectionGraph

_SWEEPS = 10


@dataclass(frozen=True, eq=False)
class Frustration:
    """What no gauge removes from a connection.

    Attributes:
        value: ν of the gauge found, in [0, 2]: an upper bound of the smallest; NaN for a graph
            without edges.
        bound: mean of the r smallest eigenvalues, in [0, 2]: a lower bound of it.
        eigenvalues: the r smallest of the normalised connection Laplacian, ascending.
        gauge: the frame of each token, orthogonal.
        rank: dimension r of the space at each token.
    """

    value: float
    bound: float
    eigenvalues: Float[Tensor, " rank"]
    gauge: Float[Tensor, "token rank rank"]
    rank: int


def frustration(graph: ConnectionGraph) -> Frustration:
    """Find a good gauge by the spectral relaxation, and improve it token by token.

    Args:
        graph: a connection graph, such as that of :func:`symmetrise`.

    Returns:
        Its frustration and the lower bound; at 0 the connection is flat in this gauge.
    """
    leading, fields = graph.leading(graph.rank)
    smallest = (1 - leading).clamp(0, 2)
    # Row a of the frame of a token is the a-th field there, made orthogonal.
    gauge = _complete(fields.transpose(0, 1))
    value = gauge_frustration(graph, gauge)
    for _ in range(_SWEEPS):
        gauge = _sweep(graph, gauge)
        before, value = value, gauge_frustration(graph, gauge)
        if before - value <= before * tolerance.rounding(gauge.dtype):
            break
    bound = torch.nan if isnan(value) else float(smallest.mean())
    return Frustration(value, bound, smallest, gauge, graph.rank)


def gauge_frustration(graph: ConnectionGraph, gauge: Float[Tensor, "token rank rank"]) -> float:
    """Measure how far a gauge is from flattening a connection.

    Args:
        graph: a connection graph.
        gauge: an orthogonal frame, as rows, to each token.

    Returns:
        ν(g) in [0, 2]; NaN for a graph without edges.
    """
    stacked = _stack(gauge)
    agreement = float((stacked * (graph.adjacency @ stacked)).sum())
    total = graph.rank * float(graph.weights.sum())
    return torch.nan if total == 0 else min(2.0, max(0.0, 1 - agreement / total))


def _sweep(
    graph: ConnectionGraph, gauge: Float[Tensor, "token rank rank"]
) -> Float[Tensor, "token rank rank"]:
    """Give each token in turn the frame that agrees best with all others."""
    stacked = _stack(gauge)
    rows = graph.adjacency.unflatten(0, gauge.shape[:2])
    for token, mine in enumerate(rows):
        stacked[token * graph.rank : (token + 1) * graph.rank] = _complete(mine @ stacked)
    return stacked.unflatten(0, gauge.shape[:2]).mT


def _stack(gauge: Float[Tensor, "token rank rank"]) -> Float[Tensor, "row rank"]:
    """Put the frames, as columns, below each other."""
    return gauge.mT.flatten(0, 1).contiguous()


def _complete(frames: Float[Tensor, "*batch rank rank"]) -> Float[Tensor, "*batch rank rank"]:
    """Give the nearest orthogonal matrices; where several are as near, one of them."""
    left, _, right = torch.linalg.svd(frames)
    return left @ right
