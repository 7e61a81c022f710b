"""Spectra: singular values of heads, eigenvalues of the walk."""

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from conwalk import dims
from conwalk.plot import style
from conwalk.plot.matrices import middle_layer
from conwalk.plot.words import axis_label, title, wrapped
from conwalk.results import place_of_head, place_of_layer, place_of_prompt, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIGMA = "singular_values"
_REAL, _IMAG, _SCALE = "spectrum_real", "spectrum_imag", "spectrum_scale"


def singular_values(
    dataset: xr.Dataset,
    layer: int | str | None = None,
    head: int | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the singular values of the heads of a layer over their root mean square. Theory §3.

    Args:
        dataset: results with singular values.
        layer: number or label of the layer; the one in the middle by default.
        head: one head; all of the layer by default.
        ax: where to draw; a figure of its own by default.

    Returns:
        The axes: a line a head, and the band that holds 90 % of heads with Gaussian factors of
        the same shape. A scaled isometry is a flat line at 1.

    Raises:
        SelectionError: there are no singular values, or no such layer or head.
    """
    require(dataset, [_SIGMA])
    label = middle_layer(dataset) if layer is None else str(layer)
    here = dataset.isel({dims.LAYER: place_of_layer(dataset, label)})
    all_heads = [int(h) for h in dataset[dims.HEAD].values]
    chosen = all_heads if head is None else [head]
    places = [place_of_head(dataset, h) for h in chosen]
    with style.canvas(ax) as axes:
        _gaussian_band(axes, here)
        for nth, place in enumerate(places):
            sigma = relative_singular_values(here[_SIGMA].isel({dims.HEAD: place}).values)
            words = f"head {head}" if head is not None else f"the {len(places)} heads"
            axes.plot(
                np.arange(1, len(sigma) + 1), sigma, color=style.PALETTE[0],
                linewidth=1.6 if head is not None else 0.7, label=words if nth == 0 else None,
            )  # fmt: skip
        axes.axhline(1, color="black", linewidth=0.6, label="a scaled isometry")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("rank of the singular value")
        axes.set_ylabel("σ / rms σ")
        axes.set_title(title(dataset[_SIGMA], f"layer {label}"))
        style.put_legend(axes, 3)
    return axes


def relative_singular_values(sigma: NDArray[Any]) -> NDArray[np.float64]:
    """Divide singular values by their root mean square.

    Args:
        sigma: of one head, descending; NaN where it has no more.

    Returns:
        Those that it has, over their root mean square.
    """
    there = np.asarray(sigma, dtype=float)
    there = there[~np.isnan(there)]
    return there / np.sqrt((there**2).mean())


def _gaussian_band(axes: "Axes", here: xr.Dataset) -> None:
    ends = [f"{_SIGMA}_null_{end}" for end in ("low", "high")]
    if not all(name in here for name in ends):
        return
    low, high = (here[name].values for name in ends)
    axes.fill_between(
        np.arange(1, len(low) + 1), low, high, color=style.CHANCE, alpha=0.5, linewidth=0, zorder=3,
        label="chance: Gaussian factors, 5 to 95 %",
    )  # fmt: skip


def spectrum(
    dataset: xr.Dataset,
    layer: int | str | None = None,
    prompt: int | str = 0,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw eigenvalues of the walk in the plane, with the unit circle. Theory §2.

    They are divided by the scale s that brings the transports closest to isometries, where the
    results hold it: isometric transports of a stochastic walk then have all of them on or in the
    circle.

    Args:
        dataset: results with eigenvalues.
        layer: number or label of the layer; the one in the middle by default.
        prompt: name or place of the prompt.
        ax: where to draw; a figure of its own by default.

    Returns:
        The axes.

    Raises:
        SelectionError: there are no eigenvalues, or no such layer or prompt.
    """
    require(dataset, [_REAL, _IMAG])
    label = middle_layer(dataset) if layer is None else str(layer)
    place = {
        dims.PROMPT: place_of_prompt(dataset, prompt),
        dims.LAYER: place_of_layer(dataset, label),
    }
    here = dataset.isel(place)
    scaled = _SCALE in here and bool(here[_SCALE].notnull())
    scale = float(here[_SCALE]) if scaled else 1.0
    of = str(here[_REAL].attrs.get("of", "eigenvalues of the walk operator"))
    with style.canvas(ax, (4.6, 4.6)) as axes:
        turn = np.linspace(0, 2 * np.pi, 361)
        axes.plot(np.cos(turn), np.sin(turn), color=style.CHANCE, linewidth=1, label="unit circle")
        axes.axhline(0, color=style.ABSENT, linewidth=0.8, zorder=0)
        axes.axvline(0, color=style.ABSENT, linewidth=0.8, zorder=0)
        axes.scatter(
            here[_REAL].values / scale, here[_IMAG].values / scale, s=9, alpha=0.6,
            color=style.PALETTE[0], linewidths=0, label="λ / s" if scaled else "λ",
        )  # fmt: skip
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xlabel(axis_label(here[_REAL]) + (" / s" if scaled else ""))
        axes.set_ylabel(axis_label(here[_IMAG]) + (" / s" if scaled else ""))
        scale_words = f", s = {scale:.3g}" if scaled else ""
        where = f"layer {label}, prompt {here[dims.PROMPT].values}{scale_words}"
        axes.set_title(f"{wrapped(of, 60)}\n{wrapped(where, 60)}")
        style.put_legend(axes)
    return axes
