"""The conditions of a connection Laplacian, each as a share of what chance has."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from conwalk.errors import SelectionError
from conwalk.plot import style
from conwalk.plot.layer_axis import layer_axis
from conwalk.results import layer_table, null_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Condition:
    """One condition and the defects that measure it, the best one first.

    Attributes:
        words: what should hold.
        defects: quantities that are 0 where it holds and have a null.
        complement: whether they are 1, not 0, where it holds.
    """

    words: str
    defects: tuple[str, ...]
    complement: bool = False


CONDITIONS = (
    Condition("scores reversible", ("curl_share",)),
    Condition("uniform law stationary", ("stationarity_defect",)),
    Condition("edges isometric, one scale", ("metric_defect",)),
    Condition("heads isometric", ("rho",), complement=True),
    Condition("transport back is the transpose", ("inverse_defect",)),
)


def conditions(dataset: xr.Dataset, *, relative: bool = False, ax: "Axes | None" = None) -> "Axes":
    """Draw every condition's defect over the layers as a share of its null. Theory §2.

    At 0 a condition holds, at 1 it is broken as much as by chance, above 1 more. For ``rho`` the
    defect is 1 − ρ, and its share is (1 − ρ)/(1 − ρ of the null).

    Args:
        dataset: results.
        relative: draw over relative depth.
        ax: where to draw; a figure of its own by default.

    Returns:
        The axes.

    Raises:
        SelectionError: the results hold none of the conditions beside its null.
    """
    layers = layer_axis(dataset, relative=relative)
    shares = condition_shares(dataset)
    if not shares:
        raise SelectionError("these results hold no condition beside its null: analyze again")
    with style.canvas(ax) as axes:
        for (words, share), color in zip(shares.items(), style.PALETTE, strict=False):
            label: str | None = words
            for run in layers.runs:
                axes.plot(
                    layers.x[run], share[run], color=color, label=label, marker="o", markersize=3
                )
                label = None
        axes.axhline(1, color=style.CHANCE, linestyle=(0, (4, 2)), linewidth=1.2, label="chance")
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.set_ylabel("defect / defect by chance")
        axes.set_title(_heading(dataset))
        layers.dress(axes)
        style.put_legend(axes)
    return axes


def _heading(dataset: xr.Dataset) -> str:
    """What the axis means, and the one condition that has no chance: that rows sum to 1."""
    heading = "conditions of a connection Laplacian: 0 where it holds, 1 as by chance"
    if "row_sum_defect" not in dataset:
        return heading
    worst = float(dataset["row_sum_defect"].max())
    return f"{heading}\nrows of the walk sum to 1 within {worst:.0e}"


def condition_shares(dataset: xr.Dataset) -> dict[str, NDArray[np.float64]]:
    """Measure each condition at every layer as a share of its null.

    Args:
        dataset: results.

    Returns:
        The shares by what should hold, in the order of Theory §2; those that were not measured,
        or cannot be, are left out.
    """
    found: dict[str, NDArray[np.float64]] = {}
    for condition in CONDITIONS:
        for name in condition.defects:
            share = _share(dataset, name, complement=condition.complement)
            if share is not None and not np.isnan(share).all():
                found.setdefault(condition.words, share)
    return found


def _share(dataset: xr.Dataset, name: str, *, complement: bool) -> NDArray[np.float64] | None:
    null = null_of(dataset, name) if name in dataset else None
    if null is None or (null.mean is None and not null.constant):
        return None
    observed = layer_table(dataset, [name])[name].to_numpy(float)
    chance = (
        np.full_like(observed, null.constant or np.nan)
        if null.mean is None
        else layer_table(dataset, [null.mean])[null.mean].to_numpy(float)
    )
    if complement:
        observed, chance = 1 - observed, 1 - chance
    return observed / np.where(chance > 0, chance, np.nan)
