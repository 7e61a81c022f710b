"""Curves along the depth, each beside what chance gives."""

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from conwalk import dims
from conwalk.plot import style
from conwalk.plot.fonts import drawable
from conwalk.plot.layer_axis import LayerAxis, layer_axis
from conwalk.plot.words import axis_label, scope, title
from conwalk.results import layer_table, null_of, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SPREAD = (0.1, 0.9)
_STABILITY = {
    "": "walk as it is",
    "_no_sink": "first token's column removed",
    "_value": "value-weighted",
}


def depth(
    dataset: xr.Dataset,
    name: str = "rho",
    *,
    relative: bool = False,
    label: str | None = None,
    color: str = style.PALETTE[0],
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a quantity over the layers, beside its null.

    The curve is the median over heads and the mean over prompts, as in the table by layer; the
    shade holds the middle 80 % of the heads. Dashed is the null, with two standard deviations to
    either side where it has them; dotted are fresh weights where they were analysed.

    Args:
        dataset: results.
        name: the quantity.
        relative: draw over relative depth, as is needed to compare models.
        label: of the curve in the legend; what it summarises, by default.
        color: of the curve.
        ax: where to draw; a figure of its own by default.

    Returns:
        The axes.

    Raises:
        SelectionError: the results do not hold that quantity, or it has no layers.
    """
    require(dataset, [name])
    layers = layer_axis(dataset, relative=relative)
    with style.canvas(ax) as axes:
        spread = _heads(dataset, name)
        if spread is not None:
            _shade(axes, layers, *spread, color=color, alpha=0.15)
        shown = label if label is not None else _summary(dataset, name, spread is not None)
        _line(axes, layers, _numbers(dataset, name), color=color, label=shown, marker="o")
        _null(axes, layers, dataset, name, color=style.CHANCE if label is None else color)
        axes.set_ylabel(axis_label(dataset[name]))
        axes.set_title(title(dataset[name]))
        layers.dress(axes)
        style.put_legend(axes, 1)
    return axes


def stability(
    dataset: xr.Dataset,
    name: str = "depth_tv",
    *,
    relative: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the distance of each layer's graph from the next one's, three ways. Theory §4.

    Args:
        dataset: results.
        name: which distance, such as ``depth_tv`` or ``depth_frobenius``.
        relative: draw over relative depth.
        ax: where to draw; a figure of its own by default.

    Returns:
        The axes: the walk as it is, without its sink, and weighted by the values, each with its
        null dashed in the same colour.

    Raises:
        SelectionError: the results do not hold that distance.
    """
    require(dataset, [name])
    layers = layer_axis(dataset, relative=relative)
    with style.canvas(ax) as axes:
        for (suffix, words), color in zip(_STABILITY.items(), style.PALETTE, strict=False):
            variant = f"{name}{suffix}"
            if variant not in dataset:
                continue
            _line(axes, layers, _numbers(dataset, variant), color=color, label=words, marker="o")
            look: dict[str, Any] = {"color": color, "quiet": bool(suffix), "banded": not suffix}
            _null(axes, layers, dataset, variant, **look)
        axes.set_ylabel(axis_label(dataset[name]))
        axes.set_title(title(dataset[name]).split(": walk matrix")[0])
        layers.dress(axes)
        style.put_legend(axes)
    return axes


def _summary(dataset: xr.Dataset, name: str, shaded: bool) -> str:
    words = scope(dataset[name]) or name
    return f"{words}; shade: middle 80 % of heads" if shaded else words


def _numbers(dataset: xr.Dataset, name: str) -> NDArray[np.float64]:
    return layer_table(dataset, [name])[name].to_numpy(float)


def _heads(dataset: xr.Dataset, name: str) -> tuple[Any, Any] | None:
    """The middle of the heads at every layer, or None where there are none."""
    variable = dataset[name]
    if dims.HEAD not in variable.dims or variable.sizes[dims.HEAD] < 3:
        return None
    others = [d for d in variable.dims if d not in (dims.LAYER, dims.HEAD)]
    low, high = variable.mean(others).quantile(list(_SPREAD), dims.HEAD).values
    return low, high


def _line(axes: "Axes", layers: LayerAxis, y: Any, *, label: str | None, **look: Any) -> None:
    """One curve, broken between stacks; named once."""
    look = {"markersize": 3, **look}
    for run in layers.runs:
        axes.plot(layers.x[run], y[run], label=label, **look)
        label = None


def _shade(axes: "Axes", layers: LayerAxis, low: Any, high: Any, **look: Any) -> None:
    for run in layers.runs:
        axes.fill_between(layers.x[run], low[run], high[run], linewidth=0, **look)


def _null(
    axes: "Axes",
    layers: LayerAxis,
    dataset: xr.Dataset,
    name: str,
    *,
    color: str,
    quiet: bool = False,
    banded: bool = True,
) -> None:
    null = null_of(dataset, name)
    if null is None:
        return
    label = None if quiet else drawable(f"chance: {null.words}")
    dashed: dict[str, Any] = {"color": color, "linestyle": (0, (4, 2)), "linewidth": 1.2}
    if null.mean is not None:
        mean = _numbers(dataset, null.mean)
        if null.sd is not None and banded:
            spread = 2 * _numbers(dataset, null.sd)
            _shade(axes, layers, mean - spread, mean + spread, color=color, alpha=0.12)
            label = label and f"{label}, ± 2 standard deviations"
        _line(axes, layers, mean, label=None, **dashed)
    elif null.constant is not None:
        axes.axhline(null.constant, **dashed)
    if label and (null.mean is not None or null.constant is not None):
        # in the legend it is grey, for each curve has its null in its own colour
        proxy: dict[str, Any] = {**dashed, "color": style.CHANCE}
        axes.plot([], [], label=label, **proxy)
    if null.fresh is not None:
        dotted = {**dashed, "linestyle": ":"}
        fresh = None if quiet else "fresh weights"
        _line(axes, layers, _numbers(dataset, null.fresh), label=fresh, **dotted)
