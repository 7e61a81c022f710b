"""Attention as one exact connection walk (Theory §1, arXiv 2607.10677)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection import walk as walks
from conwalk.connection.heads import HeadView
from conwalk.connection.laplacian import ConnectionLaplacian
from conwalk.connection.propagation import mix, propagate, propagate_back
from conwalk.connection.selection import resolve_index, take
from conwalk.connection.transport import HeadTransports
from conwalk.connection.walk import Weighting
from conwalk.errors import AbsentEdgeError
from conwalk.operators.algebra import Adjoint
from conwalk.operators.base import LinearOperator
from conwalk.operators.fields import (
    Array,
    as_tensor,
    require_alike,
    require_axes,
    require_field,
    require_shape,
)


class ConnectionWalk(LinearOperator):
    """The attention sublayer as a walk: Y_i = Σ_j P[i,j] (x_j T[i,j] + t[i,j]) + b_O.

    As an operator it is the linear part, ``walk @ x``; ``walk(x)`` adds the affine part. It is
    kept as attention and factored head maps: no transport exists until one is asked for.

    Args:
        attention: (head, query, key), the weights as applied to the values; any finite numbers,
            signed or leaking (rows below 1), square or rectangular.
        W_V: value maps (kv_head, width_in, value).
        W_O: output maps (head, value, width_out); head h reads value head h // group.
        b_V: value biases (kv_head, value), or None.
        b_O: output bias (width_out,), or None.
        value_scale: (head, key), multiplies the value at the sender, or None. It belongs to the
            transports; the walk matrix is made of the attention alone.
        output_gate: (head, query, value), multiplies the mixed value at the receiver, or None.

    Raises:
        ShapeError: shapes, dtypes or devices do not fit together, or NaN or infinite numbers.
    """

    def __init__(
        self,
        attention: Array,
        W_V: Array,
        W_O: Array,
        b_V: Array | None = None,
        b_O: Array | None = None,
        *,
        value_scale: Array | None = None,
        output_gate: Array | None = None,
    ) -> None:
        """Check the arrays and keep them, without a copy."""
        transports = HeadTransports(W_V, W_O, b_V)
        self._take_in(attention, transports, b_O, value_scale, output_gate)

    @classmethod
    def from_transports(
        cls,
        attention: Array,
        transports: HeadTransports,
        b_O: Array | None = None,
        *,
        value_scale: Array | None = None,
        output_gate: Array | None = None,
    ) -> "ConnectionWalk":
        """Make a walk that shares its head maps, and all they have cached, with other walks.

        Args:
            attention: (head, query, key), the weights as applied to the values.
            transports: the maps of the heads.
            b_O: output bias (width_out,), or None.
            value_scale: (head, key), or None.
            output_gate: (head, query, value), or None.

        Returns:
            The walk.

        Raises:
            ShapeError: shapes, dtypes or devices do not fit together, or NaN or infinite numbers.
        """
        walk = cls.__new__(cls)
        walk._take_in(attention, transports, b_O, value_scale, output_gate)
        return walk

    def _take_in(
        self,
        attention: Array,
        transports: HeadTransports,
        b_O: Array | None,
        value_scale: Array | None,
        output_gate: Array | None,
    ) -> None:
        weights = as_tensor("attention", attention)
        require_axes("attention", weights, "head query key")
        n_heads, n_queries, n_keys = weights.shape
        value, out = transports.value_width, transports.width_out
        require_shape("attention", weights, (transports.n_heads, n_queries, n_keys), "W_O")
        require_alike("attention", weights, transports.dtype, transports.device)
        self.attention = weights
        self.transports = transports
        self.b_O = _optional("b_O", b_O, "width_out", (out,), weights)
        self.value_scale = _optional(
            "value_scale", value_scale, "head key", (n_heads, n_keys), weights
        )
        self.output_gate = _optional(
            "output_gate", output_gate, "head query value", (n_heads, n_queries, value), weights
        )
        super().__init__(
            (n_keys, transports.width_in),
            (n_queries, out),
            dtype=weights.dtype,
            device=weights.device,
        )

    @property
    def n_heads(self) -> int:
        """Number of heads."""
        return self.attention.shape[0]

    @property
    def n_queries(self) -> int:
        """Number of receivers."""
        return self.attention.shape[1]

    @property
    def n_keys(self) -> int:
        """Number of senders."""
        return self.attention.shape[2]

    @property
    def is_causal(self) -> bool:
        """Whether receivers are senders and none receives from a later one."""
        return self.n_queries == self.n_keys and not bool(self.attention.triu(1).any())

    @property
    def heads(self) -> HeadView["ConnectionWalk"]:
        """The heads; ``walk.heads[h]``, ``[1:3]`` and ``[[0, 2]]`` are walks without b_O."""
        return HeadView(self.n_heads, self._select)

    def _select(self, heads: list[int]) -> "ConnectionWalk":
        return self.from_transports(
            take(self.attention, heads),
            self.transports.select(heads),
            value_scale=None if self.value_scale is None else take(self.value_scale, heads),
            output_gate=None if self.output_gate is None else take(self.output_gate, heads),
        )

    def to(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> "ConnectionWalk":
        """Move to another dtype or device.

        Args:
            dtype: floating dtype, or None to keep it.
            device: device, or None to keep it.

        Returns:
            The same walk there.
        """
        target: dict[str, Any] = {"dtype": dtype or self.dtype, "device": device or self.device}

        def moved(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(**target)

        return self.from_transports(
            self.attention.to(**target),
            self.transports.to(**target),
            moved(self.b_O),
            value_scale=moved(self.value_scale),
            output_gate=moved(self.output_gate),
        )

    def _apply(
        self, x: Float[Tensor, "*batch key width_in"]
    ) -> Float[Tensor, "*batch query width_out"]:
        return self._step(propagate, x)

    def _apply_back(
        self, y: Float[Tensor, "*batch query width_out"]
    ) -> Float[Tensor, "*batch key width_in"]:
        return self._step(propagate_back, y)

    def _adjoint(self) -> LinearOperator:
        return Adjoint(self, self._apply_back)

    def _step(self, step: Any, field: Tensor) -> Tensor:
        """Run one step with the batch axes made one."""
        batch = field.reshape(-1, *field.shape[-2:])
        moved = step(batch, self.attention, self.transports, self.value_scale, self.output_gate)
        return moved.view(*field.shape[:-2], *moved.shape[-2:])

    def __call__(self, x: Array) -> Float[Tensor, "*batch query width_out"]:
        """Give the output of the attention sublayer, biases included (Theory §0).

        Args:
            x: what the value projection reads, (..., key, width_in).

        Returns:
            ``walk @ x + walk.affine``, (..., query, width_out).

        Raises:
            ShapeError: x does not fit the walk.
        """
        field = require_field("x", x, self.domain, self.dtype, self.device)
        moved = self._apply(field)
        if self.transports.b_V is None and self.b_O is None:
            return moved
        return moved + self.affine

    @property
    def affine(self) -> Float[Tensor, "query width_out"]:
        """What the biases add to each receiver: Σ_j P[i,j] t[i,j] + b_O (Theory §1)."""
        total = self.attention.new_zeros(self.codomain)
        if self.transports.b_V is not None:
            total = total + self._mixed_bias().transpose(0, 1).flatten(1) @ (
                self.transports.output_rows
            )
        return total if self.b_O is None else total + self.b_O

    def _mixed_bias(self) -> Float[Tensor, "head query value"]:
        """Mix b_V as if it were the value of every sender."""
        ones = self.attention.new_ones(self.n_heads, self.n_keys, 1, 1)
        mass = mix(ones, self.attention, self.value_scale).squeeze(-1)
        mixed = mass * self.transports.value_biases()[:, None]
        return mixed if self.output_gate is None else mixed * self.output_gate

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

    def generator(self, scale: float = 1.0) -> ConnectionLaplacian:
        """Give the generator L_s = I − walk/s (Theory §2).

        Args:
            scale: s, the size of the transports; not 0.

        Returns:
            The generator of the linear part.

        Raises:
            ShapeError: the walk does not map a space to itself, or the scale is 0 or not finite.
        """
        return ConnectionLaplacian(self, scale)


def _optional(
    name: str, array: Array | None, axes: str, shape: tuple[int, ...], attention: Tensor
) -> Tensor | None:
    """Check an input that may be missing."""
    if array is None:
        return None
    tensor = as_tensor(name, array)
    require_axes(name, tensor, axes)
    require_shape(name, tensor, shape, "the walk")
    require_alike(name, tensor, attention.dtype, attention.device)
    return tensor
