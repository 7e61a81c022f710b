"""A layer is rebuilt from its parts: the condition for printing anything about it (Theory §7)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import tolerance
from conwalk.theorems.theorem import worst_row

STATEMENT = "Y_i = Σ_h Σ_j A[h,i,j] (x_j M[h] + c[h]) + b_O is what the layer put out"
REFERENCE = "Theory §0 and §7"


def residual(
    rebuilt: Float[Tensor, "*batch query width"], observed: Float[Tensor, "*batch query width"]
) -> float:
    """Measure how far a rebuilt output is from what the layer put out.

    Args:
        rebuilt: Ŷ, from the parts.
        observed: Y, from the model.

    Returns:
        Norm of the worst row of Ŷ − Y over the root mean square norm of the rows of Y; 0 for
        0/0; infinite where a number is not finite.
    """
    size = torch.linalg.vector_norm(observed.double(), dim=-1)
    return worst_row(rebuilt.double() - observed.double(), size)


def shortfall(found: float, limit: float) -> str:
    """Say in what a layer falls short that was not rebuilt.

    Args:
        found: its residual.
        limit: the largest that counts as rebuilt.
    """
    return f"rebuilt with residual {found:.1e}, above {limit:.0e}"


def bound(dtype: torch.dtype) -> float:
    """Give the largest residual with which a layer counts as rebuilt.

    Args:
        dtype: the dtype in which the model ran.

    Returns:
        ``conwalk.tolerance.reconstruction(dtype)``.

    Raises:
        KeyError: the dtype is not a floating dtype that models run in.
    """
    return tolerance.reconstruction(dtype)
