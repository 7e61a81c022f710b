"""The undirected connection of a walk: one rotation and one weight to each pair (Theory §5).

Both directions of a pair are averaged, S_ij = ½ (P_ij T̂_ij + (P_ji T̂_ji)ᵀ), and O_ij is the
polar factor of S_ij, so that O_ji = O_ijᵀ. With W_ij = ½ (|P_ij| + |P_ji|) and degrees D this is
the connection graph of Singer & Wu (2012); a masked direction is absent and takes no part.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from scipy import linalg
from torch import Tensor

from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.connection.reduced import RANK, ReducedConnection
from conwalk.connection.rotations import polar_factor
from conwalk.errors import SelectionError
from conwalk.operators.dense import DenseOperator
from conwalk.operators.krylov import symmetric_eigenpairs

_DENSE = 4096
_EDGES = 1 << 14


@dataclass(frozen=True, eq=False)
class ConnectionGraph:
    """A graph with a rotation on every edge.

    Attributes:
        weights: W >= 0, symmetric, 0 on the diagonal and where there is no edge.
        rotations: O_ij, acting on row vectors of j from the right, with O_ji = O_ijᵀ; 0 where
            there is no edge.
    """

    weights: Float[Tensor, "token token"]
    rotations: Float[Tensor, "token token rank rank"]

    @property
    def rank(self) -> int:
        """Dimension of the space at each token."""
        return self.rotations.shape[-1]

    @property
    def degrees(self) -> Float[Tensor, " token"]:
        """Sum of the weights at each token."""
        return self.weights.sum(1)

    @cached_property
    def adjacency(self) -> Float[Tensor, "row row"]:
        """W ∘ O on flattened fields, symmetric: block (i, j) is W_ij O_ijᵀ, for columns."""
        blocks = self.weights[..., None, None] * self.rotations.mT
        size = len(self.weights) * self.rank
        return blocks.transpose(1, 2).reshape(size, size)

    @property
    def normalised(self) -> Float[Tensor, "row row"]:
        """D^(−½) (W ∘ O) D^(−½) on flattened fields, symmetric, spectrum in [−1, 1].

        A token without edges has rows of 0.
        """
        roots = self.degrees.sqrt()
        inverse = torch.where(roots > 0, 1 / roots, torch.zeros_like(roots))
        scale = inverse.repeat_interleave(self.rank)
        return self.adjacency * scale[:, None] * scale

    def leading(
        self, count: int
    ) -> tuple[Float[Tensor, " count"], Float[Tensor, "count token rank"]]:
        """Find the largest eigenvalues of the normalised adjacency.

        One less these are the smallest of the normalised connection Laplacian. Multiplicities
        are exact up to 4096 rows; beyond, the iteration may miss copies.

        Args:
            count: how many, from 1 to token·rank.

        Returns:
            Eigenvalues, descending, and an orthonormal field to each.

        Raises:
            SelectionError: there are not so many.
        """
        matrix = self.normalised
        size = len(matrix)
        if not 1 <= count <= size:
            raise SelectionError(f"count {count} is not possible: there are {size} eigenvalues")
        space = (len(self.weights), self.rank)
        if size > _DENSE:
            found = symmetric_eigenpairs(DenseOperator(matrix, space, space), count)
            return found.values, found.vectors
        values, vectors = linalg.eigh(
            matrix.numpy(force=True), subset_by_index=[size - count, size - 1]
        )
        fields = torch.from_numpy(vectors).mT.flip(0).unflatten(1, space)
        return torch.from_numpy(values).flip(0), fields


def symmetrise(
    walk: ConnectionWalk, *, rank: int = RANK, constant: bool = False
) -> ConnectionGraph:
    """Make the undirected connection of a walk on a common subspace.

    Args:
        walk: a square walk without output gate.
        rank: dimension of the common subspace; the width at most.
        constant: put the walk's mean transport on every edge instead of its own.

    Returns:
        The graph without self-loops; float64.

    Raises:
        SelectionError: a rank below 1.
        ShapeError: the walk is not square, or has an output gate.
    """
    connection = ReducedConnection(walk, rank)
    sizes = connection.weights.abs()
    weights = (sizes + sizes.mT) / 2
    n_tokens, r = len(connection), connection.rank
    rotations = weights.new_zeros(n_tokens, n_tokens, r, r)
    mean = connection.mean_step()
    for edges in weights.triu(1).nonzero().split(_EDGES):
        i, j = edges.unbind(1)
        if constant:
            there, back = sizes[i, j, None, None] * mean, sizes[j, i, None, None] * mean
        else:
            there, back = connection.steps(i, j), connection.steps(j, i)
        rotations[i, j] = polar_factor(there + back.mT)
        rotations[j, i] = rotations[i, j].mT
    return ConnectionGraph(weights, rotations)
