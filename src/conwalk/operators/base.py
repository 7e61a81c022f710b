"""The linear operator: two methods make one, everything else is derived from them."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, overload

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.errors import ShapeError
from conwalk.operators.fields import Array, FieldShape, require_field

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator as ScipyOperator


class LinearOperator(ABC):
    """A real linear map from fields to fields, known only by what it does.

    A field is one vector per token, shape (..., token, width); leading axes are batches.
    A subclass writes ``_apply`` and ``_adjoint``; ``@``, ``.H``, ``+``, ``-``, scaling,
    composition, ``to_dense`` and ``to_scipy`` follow. The inner product is Euclidean.

    Args:
        domain: (token, width) of the fields it acts on.
        codomain: (token, width) of the fields it gives.
        dtype: dtype of the fields.
        device: device of the fields.
    """

    def __init__(
        self,
        domain: FieldShape,
        codomain: FieldShape,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Keep the two spaces."""
        self._domain = domain
        self._codomain = codomain
        self._dtype = dtype
        self._device = device

    @abstractmethod
    def _apply(
        self, x: Float[Tensor, "*batch token_in width_in"]
    ) -> Float[Tensor, "*batch token_out width_out"]:
        """Map a field of the domain; shapes have been checked."""

    @abstractmethod
    def _adjoint(self) -> "LinearOperator":
        """Give the operator B with <A x, y> = <x, B y>."""

    @property
    def domain(self) -> FieldShape:
        """(token, width) of the fields it acts on."""
        return self._domain

    @property
    def codomain(self) -> FieldShape:
        """(token, width) of the fields it gives."""
        return self._codomain

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the matrix that maps flattened fields."""
        return (
            self.codomain[0] * self.codomain[1],
            self.domain[0] * self.domain[1],
        )

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the fields."""
        return self._dtype

    @property
    def device(self) -> torch.device:
        """Device of the fields."""
        return self._device

    @property
    def is_square(self) -> bool:
        """Whether it maps a space to itself."""
        return self.domain == self.codomain

    @property
    def H(self) -> "LinearOperator":
        """The adjoint for the Euclidean inner product; its own adjoint is the operator."""
        return self._adjoint()

    @overload
    def __matmul__(self, other: "LinearOperator") -> "LinearOperator": ...
    @overload
    def __matmul__(self, other: Array) -> Tensor: ...
    def __matmul__(
        self, other: "LinearOperator | Tensor | np.ndarray"
    ) -> "LinearOperator | Tensor":
        """Apply to a field (..., token, width), or compose with another operator.

        Args:
            other: a field of the domain (torch or numpy, any batch axes) or an operator.

        Returns:
            A field of the codomain with the same batch axes, or the composition.

        Raises:
            ShapeError: shape, dtype or device does not fit.
        """
        if isinstance(other, LinearOperator):
            from conwalk.operators.algebra import Product

            return Product(self, other)
        return self._apply(require_field("x", other, self.domain, self.dtype, self.device))

    def __add__(self, other: "LinearOperator") -> "LinearOperator":
        """Add an operator between the same spaces."""
        from conwalk.operators.algebra import Sum

        return Sum(self, other)

    def __sub__(self, other: "LinearOperator") -> "LinearOperator":
        """Subtract an operator between the same spaces."""
        return self + (-other)

    def __neg__(self) -> "LinearOperator":
        """Change the sign."""
        return self * -1.0

    def __mul__(self, factor: float) -> "LinearOperator":
        """Scale by a real number."""
        from conwalk.operators.algebra import Scaled

        return Scaled(self, factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> "LinearOperator":
        """Divide by a real number that is not 0."""
        return self * (1.0 / divisor)

    def __repr__(self) -> str:
        """Name the spaces: codomain <- domain."""
        return f"{type(self).__name__}({self.codomain} <- {self.domain}, {self.dtype})"

    def to_dense(self) -> Float[Tensor, "rows columns"]:
        """Write out the matrix that maps flattened fields; for small operators.

        Returns:
            D of shape ``self.shape`` with ``(self @ x).flatten() == D @ x.flatten()``.
        """
        basis = torch.eye(self.shape[1], dtype=self.dtype, device=self.device)
        images = self @ basis.unflatten(1, self.domain)
        return images.flatten(1).mT.contiguous()

    def to_scipy(self) -> "ScipyOperator":
        """Give the operator to scipy's iterative solvers, acting on flattened fields.

        Returns:
            A ``scipy.sparse.linalg.LinearOperator`` of shape ``self.shape``.
        """
        from conwalk.operators.scipy_interop import to_scipy

        return to_scipy(self)


def require_same_spaces(left: LinearOperator, right: LinearOperator) -> None:
    """Refuse two operators that cannot be added.

    Args:
        left: any operator.
        right: the operator to be added to it.

    Raises:
        ShapeError: domain or codomain differs.
    """
    if (left.domain, left.codomain) != (right.domain, right.codomain):
        raise ShapeError(
            f"{left!r} and {right!r} map between different spaces: only operators with equal "
            "domains and codomains add"
        )


def require_composable(left: LinearOperator, right: LinearOperator) -> None:
    """Refuse two operators that cannot be composed.

    Args:
        left: the operator applied last.
        right: the operator applied first.

    Raises:
        ShapeError: the codomain of ``right`` is not the domain of ``left``.
    """
    if left.domain != right.codomain:
        raise ShapeError(
            f"{left!r} cannot follow {right!r}: its domain {left.domain} must equal the "
            f"codomain {right.codomain}"
        )
