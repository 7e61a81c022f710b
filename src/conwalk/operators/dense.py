"""A matrix as an operator: the reference that matrix-free operators are tested against."""

from jaxtyping import Float
from torch import Tensor

from conwalk.operators.base import LinearOperator
from conwalk.operators.fields import FieldShape, require_shape


class DenseOperator(LinearOperator):
    """The operator of a matrix that maps flattened fields.

    Args:
        matrix: (codomain token·width, domain token·width).
        domain: (token, width) of the fields it acts on.
        codomain: (token, width) of the fields it gives.

    Raises:
        ShapeError: the matrix does not fit the spaces.
    """

    def __init__(
        self,
        matrix: Tensor,
        domain: FieldShape,
        codomain: FieldShape,
    ) -> None:
        """Check the matrix and keep it, without a copy."""
        super().__init__(domain, codomain, dtype=matrix.dtype, device=matrix.device)
        require_shape("matrix", matrix, self.shape, "the pair of spaces")
        self._matrix = matrix

    def _apply(
        self, x: Float[Tensor, "*batch token_in width_in"]
    ) -> Float[Tensor, "*batch token_out width_out"]:
        return (x.flatten(-2) @ self._matrix.mT).unflatten(-1, self.codomain)

    def _adjoint(self) -> LinearOperator:
        return DenseOperator(self._matrix.mT, self.codomain, self.domain)
