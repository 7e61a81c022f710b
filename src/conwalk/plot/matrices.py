"""Maps of one layer whose rows and columns are tokens: the walk and what its edges carry."""

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from conwalk import dims
from conwalk.errors import SelectionError
from conwalk.plot import style
from conwalk.plot.fonts import token_label
from conwalk.plot.images import image, name_ticks, signed
from conwalk.plot.words import title
from conwalk.results import labels_of, layer_labels, place_of_layer, place_of_prompt, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WALK = "walk_matrix"
_EDGES = {"rank": "edge_effective_rank", "norm": "edge_norm"}


def walk(
    dataset: xr.Dataset,
    layer: int | str | None = None,
    prompt: int | str = 0,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the walk matrix of a layer: from each token (row) to the tokens it attends to.

    Args:
        dataset: results with walk matrices.
        layer: number or label of the layer; the one in the middle by default.
        prompt: name or place of the prompt.
        ax: where to draw; a figure of its own by default.

    Returns:
        The axes. Absent edges, of weight 0, are grey; the colour scale is a square root, so that
        small weights show beside a sink.

    Raises:
        SelectionError: there are no walk matrices, or no such layer or prompt.
    """
    return _matrix(dataset, _WALK, layer, prompt, ax)


def edges(
    dataset: xr.Dataset,
    layer: int | str | None = None,
    prompt: int | str = 0,
    *,
    quantity: str = "rank",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw what the transports of all edges of a layer are like. Theory §3.

    Args:
        dataset: results with edges.
        layer: number or label of the layer; the one in the middle by default.
        prompt: name or place of the prompt.
        quantity: ``rank`` for the effective rank, ``norm`` for the Frobenius norm.
        ax: where to draw; a figure of its own by default.

    Returns:
        The axes; absent edges are grey.

    Raises:
        SelectionError: there are no edges, no such layer or prompt, or no such quantity.
    """
    if quantity not in _EDGES and quantity not in _EDGES.values():
        raise SelectionError(f"edges have no {quantity!r}: choose from {', '.join(_EDGES)}")
    return _matrix(dataset, _EDGES.get(quantity, quantity), layer, prompt, ax)


def middle_layer(dataset: xr.Dataset) -> str:
    """Name the layer half way through the depth, which is drawn where none was asked for.

    Args:
        dataset: results.

    Returns:
        Its label.
    """
    labels = layer_labels(dataset)
    return labels[len(labels) // 2]


def _matrix(
    dataset: xr.Dataset,
    name: str,
    layer: int | str | None,
    prompt: int | str,
    ax: "Axes | None",
) -> "Axes":
    require(dataset, [name])
    label = middle_layer(dataset) if layer is None else str(layer)
    place = {
        dims.PROMPT: place_of_prompt(dataset, prompt),
        dims.LAYER: place_of_layer(dataset, label),
    }
    variable = dataset[name]
    cell = int(variable.attrs.get("tokens_per_cell", 1))
    rows, columns = (
        [token_label(t) for t in labels_of(dataset, *place.values(), axis=axis)[::cell]]
        for axis in (dims.QUERY, dims.KEY)
    )
    here = variable.isel(place).transpose(dims.QUERY, dims.KEY).values[: len(rows), : len(columns)]
    values = np.where(here == 0, np.nan, here).astype(float)
    if np.isnan(values).all():
        name_of = dataset[dims.PROMPT].values[place[dims.PROMPT]]
        raise SelectionError(f"layer {label} has no {name} for prompt {name_of}: choose another")
    more = [f"layer {label}", f"prompt {dataset[dims.PROMPT].values[place[dims.PROMPT]]}"]
    if cell > 1:
        more.append(f"means over cells of {cell} × {cell} tokens")
    with style.canvas(ax, (5.4, 4.8)) as axes:
        image(axes, values, variable, centred=signed(variable.isel(place)), weights=name == _WALK)
        axes.set_aspect("equal" if len(rows) == len(columns) else "auto")
        name_ticks(axes.xaxis, columns, upright=True)
        name_ticks(axes.yaxis, rows)
        axes.set_xlabel("to token (key)")
        axes.set_ylabel("from token (query)")
        axes.set_title(title(variable, *more, line=60))
    return axes
