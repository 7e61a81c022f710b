"""A bridge to scipy's iterative solvers."""

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator as ScipyOperator

from conwalk.operators.base import LinearOperator
from conwalk.operators.fields import working_dtype


def to_scipy(operator: LinearOperator) -> ScipyOperator:
    """Wrap an operator so that scipy can apply it and its adjoint to flattened fields.

    Args:
        operator: any operator.

    Returns:
        A scipy operator of shape ``operator.shape``; float64 for a float64 operator, float32
        for all others.
    """
    return _Adapter(operator)


class _Adapter(ScipyOperator):
    """An operator in scipy's terms: columns of flattened fields."""

    def __init__(self, operator: LinearOperator) -> None:
        """Keep the operator."""
        double = working_dtype(operator.dtype) == torch.float64
        super().__init__(np.dtype("float64" if double else "float32"), operator.shape)
        self._operator = operator

    def _matmat(self, X: np.ndarray) -> np.ndarray:
        return _apply_to_columns(self._operator, X)

    def _rmatmat(self, X: np.ndarray) -> np.ndarray:
        return _apply_to_columns(self._operator.H, X)

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return self._matmat(x.reshape(-1, 1))[:, 0]

    def _rmatvec(self, x: np.ndarray) -> np.ndarray:
        return self._rmatmat(x.reshape(-1, 1))[:, 0]


def _apply_to_columns(operator: LinearOperator, columns: np.ndarray) -> np.ndarray:
    """Map the flattened fields in the columns of an array."""
    fields = torch.tensor(columns.T, dtype=operator.dtype, device=operator.device)
    with torch.no_grad():
        images = operator @ fields.unflatten(-1, operator.domain)
    return images.flatten(1).mT.to("cpu", working_dtype(operator.dtype)).numpy()
