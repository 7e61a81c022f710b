"""The axis along the depth: layers by number, or from 0 to 1."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from conwalk.results import layer_labels, relative_depth, stacks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TICKS = 16


@dataclass(frozen=True, eq=False)
class LayerAxis:
    """Where layers stand on an axis.

    Attributes:
        x: one place a layer.
        runs: for each stack, which layers are its own; no line joins two stacks.
        labels: of the layers.
        relative: whether x goes from 0 to 1.
    """

    x: NDArray[np.float64]
    runs: tuple[NDArray[np.intp], ...]
    labels: tuple[str, ...]
    relative: bool

    def dress(self, ax: "Axes") -> None:
        """Name the axis and the layers on it."""
        if self.relative:
            ax.set_xlabel("relative depth: layer / last layer")
            return
        ax.set_xlabel("layer")
        step = -(-len(self.labels) // _TICKS)
        ax.set_xticks(self.x[::step], self.labels[::step])


def layer_axis(dataset: xr.Dataset, *, relative: bool = False) -> LayerAxis:
    """Place the layers of results on an axis.

    Args:
        dataset: results.
        relative: from 0 to 1, as is needed to compare models, instead of by number.

    Returns:
        Where they stand.
    """
    stacks = np.asarray(stacks_of(dataset), dtype=object)
    runs = tuple(np.flatnonzero(stacks == stack) for stack in dict.fromkeys(stacks))
    labels = tuple(layer_labels(dataset))
    whole = len(runs) == 1 and all(label.isdigit() for label in labels)
    numbers = np.asarray(labels, float) if whole else np.arange(len(labels), dtype=float)
    x = relative_depth(dataset) if relative else numbers
    return LayerAxis(x, runs, labels, relative)
