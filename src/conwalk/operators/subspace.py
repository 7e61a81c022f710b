"""Subspaces compared as subspaces: principal angles instead of single vectors."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.errors import ShapeError


def principal_angles(first: Tensor, second: Tensor) -> Float[Tensor, " angle"]:
    """Give the principal angles between the spans of two sets of columns.

    Cosines are taken where angles are large and sines where they are small, so that small
    angles are as exact as large ones (Björck & Golub 1973; Knyazev & Argentati 2002).

    Args:
        first: (size, left) independent columns, real or complex.
        second: (size, right) independent columns of the same length.

    Returns:
        min(left, right) angles in [0, π/2], ascending; all 0 where one span holds the other.

    Raises:
        ShapeError: the columns differ in length, are none, or are more than their length.
    """
    size = len(first)
    if len(second) != size or not all(1 <= s.shape[1] <= size for s in (first, second)):
        raise ShapeError(
            f"subspaces of shapes {tuple(first.shape)} and {tuple(second.shape)} have no angles: "
            "give columns of one length, at least one of them and no more than their length"
        )
    kind = torch.promote_types(first.dtype, second.dtype)
    larger, smaller = (torch.linalg.qr(part.to(kind)).Q for part in (first, second))
    if larger.shape[1] < smaller.shape[1]:
        larger, smaller = smaller, larger
    shared = larger.mH @ smaller
    cosines = torch.linalg.svdvals(shared).clamp(0, 1)
    sines = torch.linalg.svdvals(smaller - larger @ shared).clamp(0, 1).flip(0)
    return torch.where(cosines.square() > 0.5, torch.asin(sines), torch.acos(cosines))
