"""Tokens as points: the vector diffusion map."""

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from conwalk import dims
from conwalk.errors import SelectionError
from conwalk.plot import style
from conwalk.plot.fonts import token_label
from conwalk.plot.matrices import middle_layer
from conwalk.plot.words import title
from conwalk.results import labels_of, place_of_layer, place_of_prompt, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAP = "diffusion_map"
_NAMED = 40
_ROOM = np.array([0.09, 0.028])
_FAR = 8.0


def diffusion(
    dataset: xr.Dataset,
    layer: int | str | None = None,
    prompt: int | str = 0,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the tokens on the first two axes of the vector diffusion map of a layer. Theory §5.

    Args:
        dataset: results with a map of tokens.
        layer: number or label of the layer; the one in the middle by default.
        prompt: name or place of the prompt.
        ax: where to draw; a figure of its own by default.

    Returns:
        The axes; tokens are coloured by their place in the text, and named, up to 40, where there
        is room. An axis on which one token is far from all others is bent (asinh), and says so.

    Raises:
        SelectionError: there is no such map, layer or prompt.
    """
    require(dataset, [_MAP])
    label = middle_layer(dataset) if layer is None else str(layer)
    at = place_of_prompt(dataset, prompt)
    here = dataset[_MAP].isel({dims.PROMPT: at, dims.LAYER: place_of_layer(dataset, label)})
    texts = labels_of(dataset, at, place_of_layer(dataset, label))
    points = here.transpose(dims.TOKEN, "axis").values[: len(texts), :2]
    if np.isnan(points).all():
        name = dataset[dims.PROMPT].values[at]
        raise SelectionError(f"layer {label} has no map of the tokens of prompt {name}")
    with style.canvas(ax, (5.4, 4.4)) as axes:
        drawn = axes.scatter(
            points[:, 0], points[:, 1], c=np.arange(len(points)), cmap=style.SEQUENTIAL, s=14,
            linewidths=0,
        )  # fmt: skip
        _stretch(axes, points)
        axes.autoscale_view()
        for token in apart(axes.transAxes.inverted().transform(axes.transData.transform(points))):
            axes.annotate(
                token_label(texts[token]), points[token], xytext=(3, 2), fontsize=6.5,
                textcoords="offset points", parse_math=False,
            )  # fmt: skip
        bar = axes.figure.colorbar(drawn, ax=axes, label="place in the text", fraction=0.05)
        bar.outline.set_visible(False)
        where = f"layer {label}, prompt {dataset[dims.PROMPT].values[at]}"
        axes.set_title(title(dataset[_MAP], where, line=64))
    return axes


def apart(places: NDArray[np.float64]) -> list[int]:
    """Choose points whose names do not cover each other, the outermost first.

    Args:
        places: of the points, as shares of the axes, ``(point, 2)``.

    Returns:
        Their indices.
    """
    out = np.abs(places - 0.5).max(axis=1)
    chosen: list[int] = []
    for point in np.argsort(-out, kind="stable"):
        away = np.abs(places[chosen] - places[point]) if chosen else np.full((1, 2), np.inf)
        if (away >= _ROOM).any(axis=1).all():
            chosen.append(int(point))
        if len(chosen) == _NAMED:
            break
    return chosen


def _stretch(axes: "Axes", points: NDArray[np.float64]) -> None:
    """Bend an axis that a single token, a sink, would take for itself."""
    from matplotlib.ticker import AsinhLocator

    for number, axis in enumerate((axes.xaxis, axes.yaxis)):
        size = np.abs(points[:, number])
        usual = float(np.quantile(size, 0.9))
        bent = usual > 0 and float(size.max()) > _FAR * usual
        if bent:
            # base 0 writes plain numbers at the ticks
            scale = getattr(axes, f"set_{'xy'[number]}scale")
            scale("asinh", linear_width=usual / 2, base=0)
            axis.set_major_locator(AsinhLocator(usual / 2, numticks=6, base=0))
        axis.set_label_text(f"axis {number + 1}{', asinh' if bent else ''}")
