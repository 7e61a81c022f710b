"""Attention as one exact connection walk (Theory §1, arXiv 2607.10677)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection.cards import walk_card
from conwalk.connection.edge_transports import EdgeTransports
from conwalk.connection.heads import HeadView
from conwalk.connection.laplacian import ConnectionLaplacian
from conwalk.connection.propagation import mix, propagate, propagate_back
from conwalk.connection.selection import take
from conwalk.connection.transport import HeadTransports
from conwalk.operators.algebra import Adjoint
from conwalk.operators.base import LinearOperator
from conwalk.operators.fields import Array, require_field


class ConnectionWalk(EdgeTransports, LinearOperator):
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
        self._keep(attention, transports, b_O, value_scale, output_gate)
        super().__init__(
            (self.n_keys, transports.width_in),
            (self.n_queries, transports.width_out),
            dtype=transports.dtype,
            device=transports.device,
        )

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

    def _repr_html_(self) -> str:
        """Describe it to a notebook."""
        return walk_card(self)

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
