"""The energy ledger as areas that add up."""

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from conwalk.plot import style
from conwalk.plot.layer_axis import layer_axis
from conwalk.results import layer_table, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TERMS = {
    "dirichlet": "Dirichlet energy",
    "stationarity": "stationarity defect",
    "compatibility": "metric-compatibility defect",
    "leak": "leak",
}

# of the tallest, a height that no line shows: the rounding of rows that sum to 1
_HAIR = 1 / 500


def ledger(
    dataset: xr.Dataset,
    name: str = "energy",
    *,
    relative: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the terms of the energy ledger over the layers; they add up to the line. Theory §2.

    Positive parts are stacked above 0 and negative ones below, so that the upper edge less the
    lower one's depth is the total.

    Args:
        dataset: results.
        name: which ledger: ``energy``, ``fitted_energy`` or ``stationary_energy``.
        relative: draw over relative depth.
        ax: where to draw; a figure of its own by default.

    Returns:
        The axes. There is no null: the ledger is an identity.

    Raises:
        SelectionError: the results do not hold that ledger.
    """
    held = [term for term in TERMS if term != "leak" or f"{name}_leak" in dataset]
    names = [f"{name}_{term}" for term in held]
    require(dataset, [*names, f"{name}_total"])
    table = layer_table(dataset, [*names, f"{name}_total"])
    layers = layer_axis(dataset, relative=relative)
    with style.canvas(ax) as axes:
        tallest = float(np.nanmax(np.abs(table.to_numpy(float)), initial=0))
        for run in layers.runs:
            first = run is layers.runs[0]
            above, below = np.zeros(len(run)), np.zeros(len(run))
            for term, color in zip(held, style.PALETTE, strict=False):
                height = table[f"{name}_{term}"].to_numpy(float)[run]
                if term == "leak" and np.nanmax(np.abs(height), initial=0) < _HAIR * tallest:
                    continue
                up, down = np.clip(height, 0, None), np.clip(height, None, 0)
                look: dict[str, Any] = {"color": color, "alpha": 0.75, "linewidth": 0}
                label = TERMS[term] if first else None
                axes.fill_between(layers.x[run], above, above + up, label=label, **look)
                axes.fill_between(layers.x[run], below, below + down, **look)
                above, below = above + up, below + down
            total = table[f"{name}_total"].to_numpy(float)[run]
            axes.plot(
                layers.x[run], total, color="black", marker="o", markersize=3,
                label="total ⟨x, (I − 𝒲/s)x⟩" if first else None,
            )  # fmt: skip
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_ylabel("energy / Σ μ_i ‖x_i‖²")
        meaning = str(dataset[f"{name}_total"].attrs.get("long_name", "")).split(", ")[-1]
        axes.set_title(f"energy ledger, {meaning}" if meaning else "energy ledger")
        layers.dress(axes)
        style.put_legend(axes, 3)
    return axes
