"""What independent Gaussian factors would give: the null of every transport metric (Theory §3)."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


def _triangular(
    rows: int, k: int, draws: int, generator: np.random.Generator
) -> Float[Tensor, "draws rank k"]:
    """R factors of ``rows × k`` standard Gaussian matrices, without drawing the matrices.

    Bartlett: the entries above the diagonal are standard normal, the i-th diagonal entry is the
    root of a χ² variable with ``rows − i`` degrees of freedom.
    """
    rank = min(rows, k)
    degrees = rows - np.arange(rank)
    factors = np.triu(generator.standard_normal((draws, rank, k)), 1)
    diagonal = np.arange(rank)
    factors[:, diagonal, diagonal] = np.sqrt(generator.chisquare(degrees, (draws, rank)))
    return torch.from_numpy(factors)


def singular_values(
    width_in: int, width_out: int, k: int, *, draws: int, seed: int
) -> Float[Tensor, "draws k"]:
    """Singular values of ``W_V W_O`` with independent standard Gaussian factors.

    Args:
        width_in: d of W_V, ``d × k``.
        width_out: d of W_O, ``k × d``.
        k: value width of a head.
        draws: number of independent heads.
        seed: of the generator; the same seed gives the same numbers.

    Returns:
        ``(draws, k)``, descending, float64; exact samples. Theory §3.
    """
    generator = np.random.default_rng(seed)
    left = _triangular(width_in, k, draws, generator)
    right = _triangular(width_out, k, draws, generator)
    found = torch.linalg.svdvals(left @ right.transpose(-1, -2))
    return torch.nn.functional.pad(found, (0, k - found.shape[-1]))
