"""Eigenvalues of head maps: what they do without any inner product (Theory §3)."""

from functools import lru_cache

import torch
from jaxtyping import Complex, Float
from torch import Tensor
from torch.nn.functional import pad

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
    output = transports.W_O.to(precision).unflatten(0, (transports.n_kv_heads, -1))
    value = transports.W_V.to(precision)[:, None]
    # zeros that cannot be otherwise are put, not computed: rounding would give them a size
    spare = max(transports.value_width - transports.width_in, 0)
    small = value @ output if spare else output @ value
    return pad(torch.linalg.eigvals(small.flatten(0, 1)), (0, spare))


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


@lru_cache(maxsize=8)
def log_modulus_spread_by_chance(
    width: int, value_width: int, draws: int = 32, seed: int = 0
) -> tuple[float, float]:
    """Sample the spread of log|λ| for independent Gaussian factors.

    A d×k Gaussian factor is an isometry times its triangular factor, which has normal entries
    above the diagonal and lengths of shortening Gaussian vectors on it; the other factor,
    seen through the isometry, is k×k Gaussian. So small matrices give exact samples.

    Args:
        width: d.
        value_width: k.
        draws: independent heads, at least 2.
        seed: the same seed gives the same numbers.

    Returns:
        Mean and standard deviation over heads; the mean falls slowly to 1/2 as k and d/k grow.
        Theory §3.
    """
    generator = torch.Generator().manual_seed(seed)
    small, large = sorted((width, value_width))
    products = torch.stack([_gaussian_product(small, large, generator) for _ in range(draws)])
    spread, _ = log_modulus_spread(torch.linalg.eigvals(products))
    return float(spread.mean()), float(spread.std())


def _gaussian_product(
    small: int, large: int, generator: torch.Generator
) -> Float[Tensor, "small small"]:
    def normal(rows: int) -> Tensor:
        return torch.randn(rows, small, generator=generator, dtype=torch.float64)

    columns = normal(large)
    diagonal = torch.linalg.vector_norm(columns.tril(), dim=0)
    return normal(small) @ (columns[:small].triu(1) + torch.diag(diagonal))
