"""The generator of a walk, L_s = I − walk/s (Theory §1 and §2)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection.cards import laplacian_card
from conwalk.errors import ShapeError
from conwalk.operators.base import LinearOperator
from conwalk.operators.fields import (
    Array,
    as_tensor,
    require_axes,
    require_field,
    require_shape,
)


class ConnectionLaplacian(LinearOperator):
    """The operator x -> x − walk x/s; a random-walk connection Laplacian where Theory §2 holds.

    Args:
        walk: an operator that maps a space to itself; only its linear part is used.
        scale: s, a finite number that is not 0: the size of the transports.

    Raises:
        ShapeError: the walk is not square, or the scale is 0 or not finite.
    """

    def __init__(self, walk: LinearOperator, scale: float = 1.0) -> None:
        """Check that the walk maps a space to itself, and keep it."""
        if not walk.is_square:
            raise ShapeError(
                f"{walk!r} has no generator: a generator needs a walk that maps a space to itself"
            )
        if scale == 0 or not math.isfinite(scale):
            raise ShapeError(f"scale {scale} cannot divide a walk: give a finite number, not 0")
        super().__init__(walk.domain, walk.domain, dtype=walk.dtype, device=walk.device)
        self._walk = walk
        self._scale = scale

    @property
    def scale(self) -> float:
        """The number s by which the walk is divided."""
        return self._scale

    @property
    def walk(self) -> LinearOperator:
        """The walk that it generates."""
        return self._walk

    def _apply(self, x: Float[Tensor, "*batch token width"]) -> Float[Tensor, "*batch token width"]:
        return x - (self._walk @ x) / self._scale

    def _adjoint(self) -> "ConnectionLaplacian":
        return ConnectionLaplacian(self._walk.H, self._scale)

    def _repr_html_(self) -> str:
        """Describe it to a notebook."""
        return laplacian_card(self)

    def energy(self, x: Array, mu: Array | None = None) -> Float[Tensor, "*batch"]:
        """Compute ⟨x, L_s x⟩_μ = Σ_i μ[i] x_i · (L_s x)_i (Theory §2).

        Args:
            x: a field (..., token, width).
            mu: one weight per token; uniform, 1/n each, by default.

        Returns:
            The energy of each field; never negative where L_s is a connection Laplacian.

        Raises:
            ShapeError: x or mu does not fit the walk.
        """
        field = require_field("x", x, self.domain, self.dtype, self.device)
        rows = (field * (self @ field)).sum(-1)
        if mu is None:
            return rows.mean(-1)
        weights = as_tensor("mu", mu)
        require_axes("mu", weights, "token")
        require_shape("mu", weights, (self.domain[0],), "the number of tokens")
        return torch.tensordot(rows, weights.to(rows), dims=1)
