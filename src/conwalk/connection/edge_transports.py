"""The walk edge by edge: walk matrix, gates, and the transport of a single edge (Theory §1)."""

from jaxtyping import Float
from torch import Tensor

from conwalk.connection import walk as walks
from conwalk.connection.parts import WalkParts
from conwalk.connection.selection import resolve_index
from conwalk.connection.walk import Weighting
from conwalk.errors import AbsentEdgeError


class EdgeTransports(WalkParts):
    """What a walk does along its edges, for a weighting of the heads."""

    def head_weights(self, weighting: Weighting = "uniform") -> Float[Tensor, " head"]:
        """Resolve a weighting to ω, positive with sum 1 (Theory §1).

        Args:
            weighting: ``"uniform"``, ``"norm"`` or one positive number per head.

        Returns:
            ω.

        Raises:
            SelectionError: an unknown name.
            ShapeError: not one positive finite number per head.
        """
        return walks.head_weights(weighting, self.transports)

    def walk_matrix(self, weighting: Weighting = "uniform") -> Float[Tensor, "query key"]:
        """Average the attention of the heads: P[i,j] = Σ_h ω[h] A[h,i,j] (Theory §1).

        Args:
            weighting: ``"uniform"``, ``"norm"`` or one positive number per head.

        Returns:
            P; its rows sum to the mean row sum of the heads.

        Raises:
            SelectionError: an unknown name.
            ShapeError: not one positive finite number per head.
        """
        return walks.walk_matrix(self.attention, self.head_weights(weighting))

    def gate_field(self, weighting: Weighting = "uniform") -> Float[Tensor, "head query key"]:
        """Give the gates of all edges (Theory §1).

        Args:
            weighting: ``"uniform"``, ``"norm"`` or one positive number per head.

        Returns:
            γ[h,i,j] = ω[h] A[h,i,j] / P[i,j]; 0 on absent edges.

        Raises:
            SelectionError: an unknown name.
            ShapeError: not one positive finite number per head.
        """
        return walks.gate_field(self.attention, self.head_weights(weighting))

    def gates(self, i: int, j: int, weighting: Weighting = "uniform") -> Float[Tensor, " head"]:
        """Give the share of each head in the edge j -> i (Theory §1).

        Args:
            i: receiver.
            j: sender.
            weighting: ``"uniform"``, ``"norm"`` or one positive number per head.

        Returns:
            γ[:,i,j]; sums to 1.

        Raises:
            AbsentEdgeError: P[i,j] is 0.
            SelectionError: no such token, or an unknown weighting.
            ShapeError: not one positive finite number per head.
        """
        edge, walk = self._edge(i, j, weighting)
        return self.head_weights(weighting) * edge / walk

    def _edge(self, i: int, j: int, weighting: Weighting) -> tuple[Tensor, Tensor]:
        """Give A[:,i,j] and P[i,j] of a present edge."""
        query = resolve_index("query", i, self.n_queries)
        key = resolve_index("key", j, self.n_keys)
        edge = self.attention[:, query, key]
        walk = self.head_weights(weighting) @ edge
        if walk == 0:
            raise AbsentEdgeError(
                f"no edge from key {j} to query {i}: its weight is 0, so it has no transport; "
                "choose one where walk_matrix() is not 0"
            )
        return edge, walk

    def _edge_values(self, i: int, j: int, weighting: Weighting) -> Float[Tensor, "head value"]:
        """Give what the edge does to each coordinate of each value: A s g / P."""
        edge, walk = self._edge(i, j, weighting)
        factors = edge / walk
        if self.value_scale is not None:
            factors = factors * self.value_scale[:, j]
        if self.output_gate is not None:
            return factors[:, None] * self.output_gate[:, i]
        return factors[:, None].expand(-1, self.transports.value_width)

    def transport(
        self, i: int, j: int, weighting: Weighting = "uniform"
    ) -> Float[Tensor, "width_in width_out"]:
        """Write out the effective transport of the edge j -> i (Theory §1).

        Args:
            i: receiver.
            j: sender.
            weighting: ``"uniform"``, ``"norm"`` or one positive number per head.

        Returns:
            T[i,j] = Σ_h A[h,i,j] M[h] / P[i,j], with scale and gate where the walk has them.

        Raises:
            AbsentEdgeError: P[i,j] is 0.
            SelectionError: no such token, or an unknown weighting.
            ShapeError: not one positive finite number per head.
        """
        factors = self._edge_values(i, j, weighting).reshape(-1, 1)
        rows = self.transports.output_rows * factors
        columns = self.transports.value_heads().transpose(0, 1).flatten(1)
        return columns @ rows

    def transport_affine(
        self, i: int, j: int, weighting: Weighting = "uniform"
    ) -> Float[Tensor, " width_out"]:
        """Give the affine part of the edge j -> i (Theory §1).

        Args:
            i: receiver.
            j: sender.
            weighting: ``"uniform"``, ``"norm"`` or one positive number per head.

        Returns:
            t[i,j] = Σ_h A[h,i,j] c[h] / P[i,j]; zeros without a value bias.

        Raises:
            AbsentEdgeError: P[i,j] is 0.
            SelectionError: no such token, or an unknown weighting.
            ShapeError: not one positive finite number per head.
        """
        values = self._edge_values(i, j, weighting) * self.transports.value_biases()
        return values.flatten() @ self.transports.output_rows
