"""Whole figures: one panel, or a row of them for several metrics or several results."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import xarray as xr

from conwalk.errors import SelectionError
from conwalk.plot import style
from conwalk.plot.register import Figure, arguments, figure_named
from conwalk.plot.words import wrapped
from conwalk.results import model_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn


def compose(
    name: str,
    datasets: Sequence[xr.Dataset],
    *,
    metrics: Sequence[str] = (),
    width: float | None = None,
    **asked: Any,
) -> "Drawn":
    """Make a figure of its own, apart from any display.

    Several metrics stand side by side. Several results share the panels of ``depth``, over
    relative depth; in other figures each has a panel.

    Args:
        name: which figure.
        datasets: results, one or more.
        metrics: what to draw, where the figure takes it.
        width: in inches; height follows.
        **asked: ``layer``, ``head``, ``prompt``; None for what the figure draws by default.

    Returns:
        The figure of matplotlib.

    Raises:
        SelectionError: no such figure, or it cannot be drawn from these results.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    if not datasets:
        raise SelectionError(f"figure {name} needs results: give a folder that analyze wrote")
    figure = figure_named(name)
    overlaid = name == "depth" and len(datasets) > 1
    panels = [
        (metric, dataset)
        for metric in (metrics or (None,))
        for dataset in ([None] if overlaid else datasets)
    ]
    inches = _inches(figure, len(panels), width)
    with mpl.rc_context(style.settings()):
        drawn = Canvas(figsize=inches, layout="constrained")
        row = drawn.subplots(1, len(panels), squeeze=False)[0]
        for axes, (metric, dataset) in zip(row, panels, strict=True):
            chosen = arguments(figure, metric=metric, **asked)
            if dataset is None:
                _overlay(figure, datasets, chosen, axes)
            else:
                figure.draw(dataset, ax=axes, **chosen)
            if len(panels) > 1:
                _narrow(axes, inches[0] / len(panels), dataset if len(datasets) > 1 else None)
    return drawn


def _inches(figure: Figure, panels: int, width: float | None) -> tuple[float, float]:
    across, high = figure.size
    own = across if panels == 1 else 0.72 * across * panels
    wide = width or own
    return wide, high * min(wide / own, 1) if panels == 1 else max(high * wide / own, 2.4)


def _overlay(
    figure: Figure, datasets: Sequence[xr.Dataset], chosen: dict[str, Any], axes: "Axes"
) -> None:
    if len(datasets) > len(style.PALETTE):
        raise SelectionError(
            f"{len(datasets)} results are too many for one figure: give {len(style.PALETTE)}"
        )
    for dataset, color in zip(datasets, style.PALETTE, strict=False):
        figure.draw(
            dataset, ax=axes, relative=True, label=model_name(dataset), color=color, **chosen
        )


def _narrow(axes: "Axes", inches: float, dataset: xr.Dataset | None) -> None:
    """Break the title of a panel again, and name the model where there are several."""
    text = axes.get_title(loc="left").replace("\n", " ")
    named = text if dataset is None else f"{model_name(dataset)}: {text}"
    axes.set_title(wrapped(named, int(11 * inches)), loc="left")
    if axes.get_legend() is not None:
        style.put_legend(axes, 1)
