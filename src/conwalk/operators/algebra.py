"""Operators made from operators: sums, multiples, products, adjoints, the identity."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.operators.base import LinearOperator, require_composable, require_same_spaces
from conwalk.operators.fields import FieldShape, require_alike


class Identity(LinearOperator):
    """The operator that changes nothing.

    Args:
        domain: (token, width) of the fields.
        dtype: dtype of the fields.
        device: device of the fields.
    """

    def __init__(
        self,
        domain: FieldShape,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        """Keep the space."""
        super().__init__(domain, domain, dtype=dtype, device=torch.device(device))

    def _apply(self, x: Float[Tensor, "*batch token width"]) -> Float[Tensor, "*batch token width"]:
        return x

    def _adjoint(self) -> LinearOperator:
        return self


class Sum(LinearOperator):
    """The sum of two operators between the same spaces.

    Args:
        left: any operator.
        right: an operator with the same domain, codomain, dtype and device.

    Raises:
        ShapeError: the spaces, dtypes or devices differ.
    """

    def __init__(self, left: LinearOperator, right: LinearOperator) -> None:
        """Check that the spaces are the same, and keep both."""
        require_same_spaces(left, right)
        require_same_numbers(left, right)
        super().__init__(left.domain, left.codomain, dtype=left.dtype, device=left.device)
        self._left = left
        self._right = right

    def _apply(
        self, x: Float[Tensor, "*batch token_in width_in"]
    ) -> Float[Tensor, "*batch token_out width_out"]:
        return self._left @ x + self._right @ x

    def _adjoint(self) -> LinearOperator:
        return Sum(self._left.H, self._right.H)


class Scaled(LinearOperator):
    """An operator times a real number.

    Args:
        operator: any operator.
        factor: any real number.
    """

    def __init__(self, operator: LinearOperator, factor: float) -> None:
        """Keep both."""
        super().__init__(
            operator.domain, operator.codomain, dtype=operator.dtype, device=operator.device
        )
        self._operator = operator
        self._factor = factor

    def _apply(
        self, x: Float[Tensor, "*batch token_in width_in"]
    ) -> Float[Tensor, "*batch token_out width_out"]:
        return (self._operator @ x) * self._factor

    def _adjoint(self) -> LinearOperator:
        return Scaled(self._operator.H, self._factor)


class Product(LinearOperator):
    """The composition ``left ∘ right``: ``right`` is applied first.

    Args:
        left: the operator applied last.
        right: the operator applied first.

    Raises:
        ShapeError: the spaces, dtypes or devices do not fit together.
    """

    def __init__(self, left: LinearOperator, right: LinearOperator) -> None:
        """Check that the spaces fit, and keep both."""
        require_composable(left, right)
        require_same_numbers(left, right)
        super().__init__(right.domain, left.codomain, dtype=left.dtype, device=left.device)
        self._left = left
        self._right = right

    def _apply(
        self, x: Float[Tensor, "*batch token_in width_in"]
    ) -> Float[Tensor, "*batch token_out width_out"]:
        return self._left @ (self._right @ x)

    def _adjoint(self) -> LinearOperator:
        return Product(self._right.H, self._left.H)


class Adjoint(LinearOperator):
    """The adjoint of an operator that knows how to apply it.

    Args:
        operator: the operator; it is the adjoint of this one.
        apply: maps fields of its codomain to fields of its domain, so that
            <operator x, y> = <x, apply y>.
    """

    def __init__(self, operator: LinearOperator, apply: Callable[[Tensor], Tensor]) -> None:
        """Keep both."""
        super().__init__(
            operator.codomain, operator.domain, dtype=operator.dtype, device=operator.device
        )
        self._operator = operator
        self._map = apply

    def _apply(
        self, x: Float[Tensor, "*batch token_in width_in"]
    ) -> Float[Tensor, "*batch token_out width_out"]:
        return self._map(x)

    def _adjoint(self) -> LinearOperator:
        return self._operator


def require_same_numbers(left: LinearOperator, right: LinearOperator) -> None:
    """Refuse two operators of different dtype or on different devices.

    Args:
        left: any operator.
        right: any operator.

    Raises:
        ShapeError: dtype or device differs.
    """
    probe = torch.empty(0, dtype=right.dtype, device=right.device)
    require_alike(repr(right), probe, left.dtype, left.device)
