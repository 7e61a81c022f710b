"""Eigenvalues of head maps: what they do without any inner product (Theory §3)."""

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from conwalk import tolerance
from conwalk.connection.transport import HeadTransports
from conwalk.errors import ShapeError
from conwalk.operators.fields import working_dtype


def eigenvalues(transports: HeadTransports) -> Complex[Tensor, "head value"]:
    """Compute the eigenvalues that M[h] = W_V W_O can have besides 0, from W_O[h] W_V[h], k×k.

    Args:
        transports: the maps of the heads, of a space to itself.

    Returns:
        k eigenvalues a head, in no order. Theory §3.

    Raises:
        ShapeError: the maps do not map a space to itself.
    """
    if transports.width_in != transports.width_out:
        raise ShapeError(
            f"the maps go from width {transports.width_in} to {transports.width_out}: only maps "
            "of a space to itself have eigenvalues"
        )
    precision = working_dtype(transports.dtype)
    grouped = transports.W_O.to(precision).unflatten(0, (transports.n_kv_heads, -1))
    small = grouped @ transports.W_V.to(precision)[:, None]
    return torch.linalg.eigvals(small.flatten(0, 1))


def log_modulus_spread(
    values: Complex[Tensor, "head value"],
) -> tuple[Float[Tensor, " head"], Float[Tensor, " head"]]:
    """Measure how far the moduli of eigenvalues lie apart, on a log scale.

    Args:
        values: eigenvalues of each head.

    Returns:
        The standard deviation of log|λ| over the eigenvalues that are not 0 (NaN where there
        are none), and the share of those that are, in [0, 1]. Theory §3.
    """
    moduli = values.abs()
    largest = moduli.amax(-1, keepdim=True)
    kept = moduli > largest * tolerance.rounding(moduli.dtype, moduli.shape[-1])
    count = kept.sum(-1).to(moduli.dtype)
    logs = torch.where(kept, moduli, torch.ones_like(moduli)).log()
    mean = logs.sum(-1) / count
    deviation = torch.where(kept, logs - mean[:, None], torch.zeros_like(logs))
    return (deviation.square().sum(-1) / count).sqrt(), 1 - count / moduli.shape[-1]


def log_modulus_spread_by_chance(width: int, value_width: int) -> float:
    """Give the spread of log|λ| for independent Gaussian factors.

    The squared moduli of the eigenvalues of a product of complex Gaussian factors are
    products of independent Gamma(j) and Gamma(j + d − k) variables, j = 1..k; real factors
    come close to it for all but the smallest k.

    Args:
        width: d.
        value_width: k.

    Returns:
        The standard deviation; 1/2 in the limit of 1 ≪ k ≪ d. Theory §3.
    """
    rank = min(width, value_width)
    first = torch.arange(1, rank + 1, dtype=torch.float64)
    second = first + abs(width - value_width)
    within = torch.polygamma(1, first) + torch.polygamma(1, second)
    means = torch.digamma(first) + torch.digamma(second)
    between = means.var(correction=0)
    return float((within.mean() + between).sqrt() / 2)
