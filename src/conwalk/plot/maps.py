"""Maps whose rows are layers: heads, distances of layers, tokens."""

from typing import TYPE_CHECKING

import xarray as xr

from conwalk import dims
from conwalk.errors import SelectionError
from conwalk.plot import style
from conwalk.plot.fonts import drawable, token_label
from conwalk.plot.images import image, name_ticks, signed
from conwalk.plot.words import title
from conwalk.results import labels_of, layer_labels, place_of_prompt, require, text_of
from conwalk.results.labels import Axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WALK = "walk_matrix"


def heads(dataset: xr.Dataset, name: str = "rho", *, ax: "Axes | None" = None) -> "Axes":
    """Draw a quantity of every head of every layer; colours are centred on 0 where it has a sign.

    Args:
        dataset: results.
        name: a quantity with heads; it is averaged over prompts.
        ax: where to draw; a figure of its own by default.

    Returns:
        The axes; layers downwards, heads to the right.

    Raises:
        SelectionError: the results do not hold that quantity, or it has no heads.
    """
    require(dataset, [name])
    variable = dataset[name]
    if not {dims.LAYER, dims.HEAD} <= set(variable.dims):
        raise SelectionError(f"{name} has no heads: choose a metric by head, or draw depth")
    others = [d for d in variable.dims if d not in (dims.LAYER, dims.HEAD)]
    values = variable.mean(others).transpose(dims.LAYER, dims.HEAD).values
    with style.canvas(ax, _size(dataset)) as axes:
        image(axes, values, variable, centred=signed(variable))
        name_ticks(axes.xaxis, [str(h) for h in dataset[dims.HEAD].values])
        _name_layers(axes, dataset)
        axes.set_xlabel("head")
        axes.set_title(title(variable, "mean over prompts" if dims.PROMPT in others else ""))
    return axes


def distances(
    dataset: xr.Dataset,
    name: str = "operator_distance",
    *,
    prompt: int | str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the distances of any two layers. Theory §4.

    Args:
        dataset: results.
        name: ``operator_distance``, or such as ``depth_tv_matrix``.
        prompt: name or place of one prompt; the mean over all by default.
        ax: where to draw; a figure of its own by default.

    Returns:
        The axes.

    Raises:
        SelectionError: the results do not hold these distances, or that prompt.
    """
    require(dataset, [name])
    variable = dataset[name]
    if dims.LAYER_TO not in variable.dims:
        raise SelectionError(f"{name} is no distance of any two layers: try operator_distance")
    where = "mean over prompts"
    if prompt is None:
        values = variable.mean(dims.PROMPT)
    else:
        place = place_of_prompt(dataset, prompt)
        values = variable.isel({dims.PROMPT: place})
        where = f"prompt {dataset[dims.PROMPT].values[place]}"
    with style.canvas(ax, (4.8, 4.2)) as axes:
        image(axes, values.transpose(dims.LAYER, dims.LAYER_TO).values, variable, centred=False)
        labels = layer_labels(dataset)
        name_ticks(axes.xaxis, labels, upright=not labels[0].isdigit())
        _name_layers(axes, dataset)
        axes.set_xlabel("layer")
        axes.set_title(title(variable, where, line=56))
    return axes


def tokens(
    dataset: xr.Dataset,
    name: str | None = None,
    *,
    prompt: int | str = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a quantity of every token at every layer.

    Args:
        dataset: results.
        name: a quantity with tokens, such as ``token_energy_dirichlet``; by default the share of
            all steps of the walk that go to a token, the column means of ``walk_matrix``.
        prompt: name or place of the prompt.
        ax: where to draw; a figure of its own by default.

    Returns:
        The axes; layers downwards, tokens to the right. Where layers read different texts, they
        are the layers that read what the first one does: choose others in the dataset.

    Raises:
        SelectionError: the results do not hold that quantity, or that prompt.
    """
    place = place_of_prompt(dataset, prompt)
    axis = dims.KEY if name is None else dims.QUERY
    dataset, more = _of_one_text(dataset, axis)
    variable = received(dataset) if name is None else dataset[_of_tokens(dataset, name)]
    cell = int(variable.attrs.get("tokens_per_cell", 1))
    texts = labels_of(dataset, place, 0, axis)[::cell]
    values = variable.isel({dims.PROMPT: place, dims.TOKEN: slice(0, len(texts))})
    with style.canvas(ax, (7.5, _size(dataset)[1])) as axes:
        image(
            axes, values.transpose(dims.LAYER, dims.TOKEN).values, variable,
            centred=signed(values), weights=not signed(values),
        )  # fmt: skip
        name_ticks(axes.xaxis, [token_label(t) for t in texts], upright=True)
        _name_layers(axes, dataset)
        axes.set_xlabel("token")
        where = drawable(f"prompt {dataset[dims.PROMPT].values[place]}")
        axes.set_title(title(variable, where, *more))
    return axes


def received(dataset: xr.Dataset) -> xr.DataArray:
    """Give the share of all steps of the walk that go to each token: column means of P.

    Args:
        dataset: results with walk matrices.

    Returns:
        One number a token, ``(prompt, layer, token)``; the mean over the tokens of a prompt.

    Raises:
        SelectionError: there are no walk matrices.
    """
    require(dataset, [_WALK])
    walks = dataset[_WALK]
    shares = walks.mean(dims.QUERY, skipna=True).rename({dims.KEY: dims.TOKEN})
    return shares.rename("steps to a token").assign_attrs(
        symbol="mean_i P_ij", unit="1", long_name="share of all steps that go to a token",
        tokens_per_cell=walks.attrs.get("tokens_per_cell", 1),
    )  # fmt: skip


def _of_tokens(dataset: xr.Dataset, name: str) -> str:
    require(dataset, [name])
    if not {dims.PROMPT, dims.LAYER, dims.TOKEN} == set(dataset[name].dims):
        raise SelectionError(f"{name} has no tokens: choose such as token_energy_dirichlet")
    return name


def _of_one_text(dataset: xr.Dataset, axis: Axis) -> tuple[xr.Dataset, list[str]]:
    """The layers that read what the first one reads, and words for it if there are others."""
    texts = [text_of(dataset, layer, axis) for layer in range(dataset.sizes[dims.LAYER])]
    chosen = [layer for layer, text in enumerate(texts) if text == texts[0]]
    if len(chosen) == len(texts):
        return dataset, []
    return dataset.isel({dims.LAYER: chosen}), ["layers that read this text"]


def _name_layers(axes: "Axes", dataset: xr.Dataset) -> None:
    name_ticks(axes.yaxis, layer_labels(dataset))
    axes.set_ylabel("layer")


def _size(dataset: xr.Dataset) -> tuple[float, float]:
    return 6.0, min(1.6 + 0.14 * dataset.sizes[dims.LAYER], 6.0)
