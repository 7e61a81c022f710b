"""The orthogonal part of a matrix: what it does to directions, without what it does to sizes."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import tolerance


def polar_factor(matrices: Float[Tensor, "*batch r r"]) -> Float[Tensor, "*batch r r"]:
    """Give U Vᵀ of U diag(σ) Vᵀ, the nearest partial isometry of the same support.

    Directions whose σ is rounding beside the largest carry nothing and are left out, so that
    the factor of 0 is 0 and that of a matrix of full rank is orthogonal.

    Args:
        matrices: any square matrices.

    Returns:
        Partial isometries; they move with orthogonal changes of basis on either side, and do
        not change when a matrix is multiplied by a positive number.
    """
    left, sizes, right = torch.linalg.svd(matrices, full_matrices=False)
    floor = sizes[..., :1] * tolerance.rounding(sizes.dtype, sizes.shape[-1])
    kept = (sizes > floor).to(sizes.dtype)
    return (left * kept[..., None, :]) @ right
