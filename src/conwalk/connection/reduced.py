"""The connection on a common subspace of few dimensions, where curvature is affordable (Theory §5).

Whether transports around a loop agree is a question about maps of one space to itself. Edge
transports have no small invariant subspace in common, so they are compressed to the one that
their head maps use most, as rows and as columns: B in, B out, T̂ = Bᵀ T B. The rank is part of
every answer; at full rank nothing is lost.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.connection.transport import HeadTransports
from conwalk.errors import SelectionError, ShapeError

RANK = 8
"""Dimension of the common subspace, where none is asked for."""


def principal_subspace(transports: HeadTransports, rank: int = RANK) -> Float[Tensor, "width rank"]:
    """Find the subspace that the head maps read from and write to most.

    Args:
        transports: the maps of the heads, of a space to itself.
        rank: its dimension; the width at most.

    Returns:
        Orthonormal columns B, float64: the leading eigenvectors of Σ_h M_h M_hᵀ + M_hᵀ M_h;
        the identity where the rank reaches the width.

    Raises:
        SelectionError: a rank below 1.
        ShapeError: the heads do not map a space to itself.
    """
    if rank < 1:
        raise SelectionError(f"rank {rank} is no dimension: give 1 or more")
    if transports.width_in != transports.width_out:
        raise ShapeError(
            f"{transports!r} maps between different spaces, which have no common subspace"
        )
    width = transports.width_in
    if rank >= width:
        return torch.eye(width, dtype=torch.float64, device=transports.device)
    maps = transports.to(torch.float64)
    value, output = maps.value_heads(), maps.W_O
    moment = _moment(value, output @ output.mT) + _moment(output.mT, value.mT @ value)
    return torch.linalg.eigh(moment).eigenvectors[:, -rank:].flip(1)


def _moment(
    factor: Float[Tensor, "head width value"], middle: Float[Tensor, "head value value"]
) -> Float[Tensor, "width width"]:
    """Sum factor[h] middle[h] factor[h]ᵀ over the heads."""
    scaled = (factor @ middle).transpose(0, 1).flatten(1)
    return scaled @ factor.transpose(0, 1).flatten(1).mT


class ReducedConnection:
    """The edges of a walk, compressed to a common subspace.

    Args:
        walk: a square walk without output gate.
        rank: dimension of the subspace; the width at most.

    Raises:
        SelectionError: a rank below 1.
        ShapeError: the walk is not square, or has an output gate.
    """

    def __init__(self, walk: ConnectionWalk, rank: int = RANK) -> None:
        """Compress the head maps, once for all edges."""
        if walk.output_gate is not None or not walk.is_square:
            raise ShapeError(
                f"{walk!r} is compressed to no common subspace: give a square walk without "
                "output gate"
            )
        basis = principal_subspace(walk.transports, rank)
        maps = walk.transports.to(torch.float64)
        weights = walk.attention.to(torch.float64)
        self.rank = basis.shape[1]
        self.maps = (basis.mT @ maps.value_heads()) @ (maps.W_O @ basis)
        self.weights = walk.walk_matrix().to(torch.float64).fill_diagonal_(0.0)
        scale = walk.value_scale
        self._factors = weights if scale is None else weights * scale[:, None]

    def __len__(self) -> int:
        """Count the tokens."""
        return len(self.weights)

    def steps(
        self, receivers: Int[Tensor, " edge"], senders: Int[Tensor, " edge"]
    ) -> Float[Tensor, "edge rank rank"]:
        """Give P_ij T̂_ij of some edges, which no weighting of the heads moves.

        The sign of P_ij is taken out, so that what remains is a positive multiple of T̂_ij.

        Args:
            receivers: i of each edge.
            senders: j of each edge.

        Returns:
            |P_ij| T̂_ij, acting on row vectors from the right.
        """
        factors = self._factors[:, receivers, senders]
        signs = torch.where(self.weights[receivers, senders] < 0, -1.0, 1.0)
        return torch.tensordot((factors * signs).mT, self.maps, dims=1)

    def mean_step(self) -> Float[Tensor, "rank rank"]:
        """Give Σ_ij P_ij T̂_ij over all edges between different tokens.

        Returns:
            The constant transport that the walk uses on average, up to its size.
        """
        factors = self._factors.sum((1, 2)) - self._factors.diagonal(dim1=1, dim2=2).sum(1)
        sign = -1.0 if self.weights.sum() < 0 else 1.0
        return torch.tensordot(factors * sign, self.maps, dims=1)
