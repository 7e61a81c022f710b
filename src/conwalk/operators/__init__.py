"""Matrix-free linear operators on fields of vectors, one vector per token."""

from conwalk.operators.algebra import Adjoint, Identity, Product, Scaled, Sum
from conwalk.operators.base import LinearOperator
from conwalk.operators.dense import DenseOperator
from conwalk.operators.scipy_interop import to_scipy

__all__ = [
    "Adjoint",
    "DenseOperator",
    "Identity",
    "LinearOperator",
    "Product",
    "Scaled",
    "Sum",
    "to_scipy",
]
