"""Single numbers read from results, with the layer or head they were found at."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from conwalk import results


@dataclass(frozen=True)
class At:
    """A number and the layer it belongs to."""

    value: float
    layer: str


@dataclass(frozen=True, eq=False)
class Reading:
    """A quantity layer by layer: median over heads, then mean (or the worst) over prompts.

    Attributes:
        values: one number a layer; NaN where there is none.
        labels: of the layers.
    """

    values: NDArray[np.float64]
    labels: tuple[str, ...]

    @property
    def median(self) -> float:
        """Over the layers that have a number."""
        return float(np.nanmedian(self.values))

    @property
    def lowest(self) -> At:
        """The layer with the smallest number."""
        return self._at(int(np.nanargmin(self.values)))

    @property
    def highest(self) -> At:
        """The layer with the largest number."""
        return self._at(int(np.nanargmax(self.values)))

    def _at(self, place: int) -> At:
        return At(float(self.values[place]), self.labels[place])


def read_layers(dataset: xr.Dataset, name: str | None) -> Reading | None:
    """Read a quantity layer by layer.

    Args:
        dataset: results.
        name: a variable with a layer axis.

    Returns:
        Its numbers; None if the results do not hold it, or hold no number of it.
    """
    if name is None or name not in dataset:
        return None
    values = over_prompts(dataset[name], over_heads=True).to_numpy().astype(np.float64)
    if not np.isfinite(values).any():
        return None
    return Reading(values, tuple(results.layer_labels(dataset)))


def over_prompts(variable: xr.DataArray, *, over_heads: bool = False) -> xr.DataArray:
    """Mean over the prompts, or the worst of them; median over heads and tokens first if asked."""
    inner = [d for d in ("head", "token") if d in variable.dims]
    value = variable.median(inner, skipna=True) if inner and over_heads else variable
    if "prompt" not in value.dims:
        return value
    worst = variable.attrs.get("over_prompts") == "worst"
    return value.max("prompt") if worst else value.mean("prompt")


def chance(dataset: xr.Dataset, name: str) -> float | None:
    """What chance gives for a quantity, median over layers; None where it is not known."""
    null = results.null_of(dataset, name) if name in dataset else None
    if null is None:
        return None
    if null.constant is not None:
        return null.constant
    found = read_layers(dataset, null.mean or null.fresh)
    return None if found is None else found.median
