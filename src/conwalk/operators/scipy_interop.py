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
    precision = working_dtype(operator.dtype)
    dtype = np.dtype("float64" if precision == torch.float64 else "float32")

    def columns(linear: LinearOperator, block: np.ndarray) -> np.ndarray:
        """Apply to every column of (entries, columns)."""
        fields = torch.tensor(block.T, dtype=linear.dtype, device=linear.device)
        with torch.no_grad():
            images = linear @ fields.unflatten(-1, linear.domain)
        return images.flatten(1).mT.to("cpu", precision).numpy()

    def vector(linear: LinearOperator, flat: np.ndarray) -> np.ndarray:
        return columns(linear, flat.reshape(-1, 1))[:, 0]

    return ScipyOperator(
        shape=operator.shape,
        dtype=dtype,
        matvec=lambda flat: vector(operator, flat),
        rmatvec=lambda flat: vector(operator.H, flat),
        matmat=lambda block: columns(operator, block),
        rmatmat=lambda block: columns(operator.H, block),
    )
