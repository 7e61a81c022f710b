"""Curvature around triangles: does the way over a third token agree with the direct one?

For a triangle i ← j ← l a row vector of l reaches i as x T_jl T_ij or as x T_il. With the polar
factors U of the transports on a common subspace of dimension r,

    defect = 1 − ⟨U_jl U_ij, U_il⟩ / (‖U_jl U_ij‖ ‖U_il‖)      in [0, 2]

is 0 if and only if both ways are the same, 1 on average for unrelated rotations, and 2 if they
are opposite (Theory §5).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.connection.reduced import RANK, ReducedConnection
from conwalk.connection.rotations import polar_factor

TRIANGLES = 512
"""Walks with more triangles are sampled this many times."""


@dataclass(frozen=True)
class Holonomy:
    """The mean defect of the triangles of a walk, weighted by the walk.

    Attributes:
        defect: mean over triangles of weight |P_ij P_jl P_il|, in [0, 2]; NaN where there is no
            triangle, or none of which both ways carry anything.
        standard_error: of the mean, over samples; 0 where all triangles were taken.
        constant: defect of the walk's mean transport put on every edge, in [0, 2].
        triangles: how many were looked at.
        rank: dimension r of the common subspace.
    """

    defect: float
    standard_error: float
    constant: float
    triangles: int
    rank: int

    @property
    def excess(self) -> float:
        """The defect less that of a constant transport: below 0 where edges agree better."""
        return self.defect - self.constant


def triangle_holonomy(
    walk: ConnectionWalk, *, rank: int = RANK, triangles: int = TRIANGLES, seed: int = 0
) -> Holonomy:
    """Compare, around triangles of different tokens, the way over the third with the direct one.

    Args:
        walk: a square walk without output gate. A causal walk has triangles l < j < i only.
        rank: dimension of the common subspace; the width at most.
        triangles: take all where there are no more than this, else draw so many with
            replacement, with probability proportional to their weight.
        seed: of the draws.

    Returns:
        The weighted mean of the defect, with its standard error and the constant baseline.

    Raises:
        SelectionError: a rank below 1.
        ShapeError: the walk is not square, or has an output gate.
    """
    connection = ReducedConnection(walk, rank)
    mean = polar_factor(connection.mean_step())[None]
    constant = float(holonomy_defect(mean, mean, mean)[0])
    weights = connection.weights.abs()
    present = (weights > 0).to(torch.float64)
    total = int(((present @ present) * present).sum())
    if total == 0:
        return Holonomy(torch.nan, torch.nan, constant, 0, connection.rank)
    if total <= triangles:
        chosen = all_triangles(weights)
        shares = _weights(weights, chosen)
    else:
        chosen = draw_triangles(weights, triangles, seed)
        shares = torch.ones(triangles, dtype=torch.float64, device=weights.device)
    defects = _defects(connection, chosen)
    known = defects.isfinite()
    shares = shares * known / (shares * known).sum()
    average = (shares * defects.nan_to_num()).sum()
    spread = (shares * (defects.nan_to_num() - average).square()).sum()
    error = 0.0 if total <= triangles else float((spread / known.sum()).sqrt())
    return Holonomy(float(average), error, constant, len(chosen), connection.rank)


def holonomy_defect(
    first: Float[Tensor, "*batch r r"],
    second: Float[Tensor, "*batch r r"],
    direct: Float[Tensor, "*batch r r"],
) -> Float[Tensor, "*batch"]:
    """Compare two transports in a row with a third, all of them polar factors.

    Args:
        first: U_jl, applied first; row vectors, so on the left.
        second: U_ij.
        direct: U_il.

    Returns:
        1 − cosine of the angle between U_jl U_ij and U_il, in [0, 2]; NaN where one is 0.
    """
    around = first @ second
    sizes = torch.linalg.matrix_norm(around) * torch.linalg.matrix_norm(direct)
    return (1 - (around * direct).sum((-2, -1)) / sizes).clamp(0, 2)


def all_triangles(weights: Float[Tensor, "token token"]) -> Int[Tensor, "triangle 3"]:
    """List the triangles of a graph.

    Args:
        weights: of the edges, receiver by sender; 0 where there is none and on the diagonal.

    Returns:
        (i, j, l) with edges j -> i, l -> j and l -> i.
    """
    edges = weights > 0
    return (edges[:, :, None] & edges[None] & edges[:, None]).nonzero()


def draw_triangles(
    weights: Float[Tensor, "token token"], count: int, seed: int
) -> Int[Tensor, "draw 3"]:
    """Draw triangles with replacement, with probability proportional to the product of weights.

    Args:
        weights: of the edges, as for :func:`all_triangles`; at least one triangle.
        count: how many to draw.
        seed: of the draws.

    Returns:
        (i, j, l) with edges j -> i, l -> j and l -> i.
    """
    generator = torch.Generator(weights.device).manual_seed(seed)
    closing = (weights * (weights @ weights)).flatten()
    uniform = torch.rand(count, generator=generator, dtype=torch.float64, device=weights.device)
    sums = closing.cumsum(0)
    ends = torch.searchsorted(sums, uniform * sums[-1], right=True).clamp(max=len(sums) - 1)
    receivers, senders = ends // len(weights), ends % len(weights)
    over = weights[receivers] * weights[:, senders].mT
    between = torch.multinomial(over, 1, generator=generator).squeeze(1)
    return torch.stack([receivers, between, senders], dim=1)


def _weights(
    weights: Float[Tensor, "token token"], chosen: Int[Tensor, "triangle 3"]
) -> Float[Tensor, " triangle"]:
    i, j, k = chosen.unbind(1)
    return weights[i, j] * weights[j, k] * weights[i, k]


def _defects(
    connection: ReducedConnection, chosen: Int[Tensor, "triangle 3"]
) -> Float[Tensor, " triangle"]:
    """Take the polar factor of every edge once, then go around the triangles."""
    i, j, k = chosen.unbind(1)
    n_tokens, n_chosen = len(connection), len(chosen)
    ends = torch.cat([j * n_tokens + k, i * n_tokens + j, i * n_tokens + k])
    edges, where = ends.unique(return_inverse=True)
    factors = polar_factor(connection.steps(edges // n_tokens, edges % n_tokens))
    first, second, direct = factors[where].split(n_chosen)
    return holonomy_defect(first, second, direct)
