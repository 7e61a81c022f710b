"""Images with a colour bar, the way all maps here are drawn."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from conwalk.plot import style
from conwalk.plot.words import axis_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TICKS = 26
_MANY = 12


def signed(variable: xr.DataArray) -> bool:
    """Say whether a quantity has a sign that matters, so that its colours are centred on 0.

    Args:
        variable: of results.

    Returns:
        True where it has values on both sides of 0.
    """
    values = np.asarray(variable.values, dtype=float)
    return bool((values < 0).any() and (values > 0).any())


def image(
    axes: "Axes",
    values: NDArray[Any],
    variable: xr.DataArray,
    *,
    centred: bool,
    weights: bool = False,
) -> None:
    """Draw a matrix, rows downwards; what is not there is grey.

    Args:
        axes: where to draw.
        values: the matrix; NaN where there is nothing.
        variable: where its symbol and unit are.
        centred: whether the colours diverge from 0.
        weights: whether they are weights of a walk: white to blue on a square root, so that small
            ones show beside a sink.
    """
    import matplotlib as mpl
    from matplotlib.colors import PowerNorm

    look: dict[str, Any] = {"cmap": mpl.colormaps[style.SEQUENTIAL].with_extremes(bad=style.ABSENT)}
    if centred:
        bound = float(np.nanmax(np.abs(values), initial=0)) or 1.0
        cmap = mpl.colormaps[style.DIVERGING].with_extremes(bad=style.ABSENT)
        look = {"cmap": cmap, "vmin": -bound, "vmax": bound}
    elif weights:
        cmap = mpl.colormaps[style.WEIGHTS].with_extremes(bad=style.ABSENT)
        look = {"cmap": cmap, "norm": PowerNorm(0.5, vmin=0)}
    shown = axes.imshow(np.ma.masked_invalid(values), aspect="auto", interpolation="none", **look)
    bar = axes.figure.colorbar(shown, ax=axes, label=axis_label(variable), fraction=0.05, pad=0.02)
    bar.outline.set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def name_ticks(axis: Any, labels: Sequence[str], *, upright: bool = False) -> None:
    """Write labels along an axis, as many as there is room for.

    Args:
        axis: ``axes.xaxis`` or ``axes.yaxis``.
        labels: of all places.
        upright: whether they stand.
    """
    step = -(-len(labels) // _TICKS) if labels else 1
    places = range(0, len(labels), step)
    axis.set_ticks(places, [labels[p] for p in places])
    axis.set_tick_params(labelsize=6.5 if len(labels) > _MANY else 8, length=2)
    for text in axis.get_ticklabels():
        text.set_parse_math(False)
        if upright:
            text.set_rotation(90)
