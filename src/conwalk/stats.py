"""From observed and null values to z, p and q."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

Numbers = NDArray[np.float64]


def two_sided(z: Numbers) -> Numbers:
    """Probability of a normal variable at least ``|z|`` standard deviations from its mean."""
    return erfc(np.abs(z) / np.sqrt(2.0))


def benjamini_hochberg(p: Numbers) -> Numbers:
    """Smallest false discovery rate at which each test would be called a discovery.

    Args:
        p: p-values of any shape; NaN where there was no test.

    Returns:
        q-values of the same shape, NaN where p is. Benjamini and Hochberg (1995).
    """
    q = np.full(p.shape, np.nan)
    tested = np.isfinite(p)
    ordered = np.sort(p[tested])
    n = ordered.size
    if n:
        steps = ordered * n / np.arange(1, n + 1)
        adjusted = np.minimum.accumulate(steps[::-1])[::-1]
        q[tested] = np.minimum(adjusted, 1.0)[np.argsort(np.argsort(p[tested]))]
    return q
