"""Observed numbers beside what a null drew. Theory §3."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from conwalk.errors import ShapeError
from conwalk.operators.fields import Array

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


def compare(observed: Array, draws: Sequence[Array]) -> Comparison:
    """Compare observed numbers with draws of a null, number by number.

    A draw that has no number (NaN) at a place does not count there.

    Args:
        observed: numbers of any shape.
        draws: at least one array of the same shape.

    Returns:
        Mean, standard deviation and z; give z to :func:`conwalk.stats.two_sided` and that to
        :func:`conwalk.stats.benjamini_hochberg`. Theory §3.

    Raises:
        ShapeError: no draw, or one of another shape.
    """
    seen, null = _numbers(observed), [_numbers(d) for d in draws]
    if not null or {n.shape for n in null} != {seen.shape}:
        shapes = sorted({n.shape for n in null}) or "none"
        raise ShapeError(
            f"what was observed has shape {seen.shape} and the draws {shapes}: give at least one "
            "draw of the same numbers"
        )
    drawn = np.stack(null)
    there = np.isfinite(drawn)
    count = there.sum(0, dtype=np.float64)
    mean = _ratio(np.where(there, drawn, 0.0).sum(0), count)
    squares = np.where(there, drawn - mean, 0.0) ** 2
    sd = np.asarray(np.sqrt(_ratio(squares.sum(0), count - 1)))
    return Comparison(mean, sd, _ratio(seen - mean, sd))


def _numbers(array: Array) -> Numbers:
    plain = array.double().numpy(force=True) if isinstance(array, Tensor) else array
    return np.asarray(plain, dtype=np.float64)


def _ratio(top: Numbers | np.float64, bottom: Numbers | np.float64) -> Numbers:
    """NaN where the denominator is not above 0."""
    result = np.full(np.shape(top), np.nan)
    return np.divide(top, bottom, out=result, where=np.asarray(bottom) > 0)
