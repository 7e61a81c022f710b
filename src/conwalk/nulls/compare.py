"""Observed numbers beside what a null drew. Theory §3."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Comparison:
    """A null beside observed numbers, number by number.

    Attributes:
        mean: of the null, in the shape of what was observed.
        sd: standard deviation of the null; NaN where fewer than two draws have a number.
        z: ``(observed − mean) / sd``; NaN where the null does not vary.
    """

    mean: Numbers
    sd: Numbers
    z: Numbers


def compare(observed: ArrayLike, draws: Sequence[ArrayLike]) -> Comparison:
    """Compare observed numbers with draws of a null, number by number.

    A draw that has no number (NaN) at a place does not count there.

    Args:
        observed: numbers of any shape; tensors must be on the CPU.
        draws: at least one array of the same shape.

    Returns:
        Mean, standard deviation and z; give z to :func:`conwalk.stats.two_sided` and that to
        :func:`conwalk.stats.benjamini_hochberg`. Theory §3.

    Raises:
        ValueError: no draw, or one of another shape.
    """
    seen = np.asarray(observed, dtype=np.float64)
    null = np.stack([np.asarray(d, dtype=np.float64) for d in draws])
    if null.shape[1:] != seen.shape:
        raise ValueError(
            f"the draws have shape {null.shape[1:]} and what was observed {seen.shape}: compare "
            "numbers of the same things"
        )
    there = np.isfinite(null)
    count = there.sum(0)
    mean = _ratio(np.where(there, null, 0.0).sum(0), count)
    squares = np.where(there, null - mean, 0.0) ** 2
    sd = np.sqrt(_ratio(squares.sum(0), count - 1))
    return Comparison(mean, sd, _ratio(seen - mean, sd))


def _ratio(top: Numbers, bottom: Numbers) -> Numbers:
    """NaN where the denominator is not above 0."""
    result = np.full(np.shape(top), np.nan)
    return np.divide(top, bottom, out=result, where=np.asarray(bottom) > 0)
