"""One labelled array before it becomes part of a dataset."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Variable:
    """An array, its dimensions, and what a reader must know about it.

    Attributes:
        dims: names of its axes.
        values: the numbers; NaN where there is none.
        attrs: symbol, unit, range, meaning, section, null and so on.
    """

    dims: tuple[str, ...]
    values: NDArray[Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)


def empty(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """An array to be filled; NaN says that a number does not exist."""
    return np.full(shape, np.nan)
