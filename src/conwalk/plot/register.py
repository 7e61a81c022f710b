"""The figures by name, and what can be chosen about each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conwalk.errors import SelectionError
from conwalk.plot.areas import ledger
from conwalk.plot.curves import depth, stability
from conwalk.plot.maps import distances, heads, tokens
from conwalk.plot.matrices import edges, walk
from conwalk.plot.scatter import diffusion
from conwalk.plot.shares import conditions
from conwalk.plot.spectra import singular_values, spectrum

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Figure:
    """One kind of figure.

    Attributes:
        name: how it is asked for.
        draw: the function; takes results, ``ax=`` and the choices.
        meaning: what it shows, one line.
        choices: which of ``metric``, ``layer``, ``head``, ``prompt`` it takes, and under which
            name the function knows them.
        size: width and height in inches.
    """

    name: str
    draw: "Callable[..., Axes]"
    meaning: str
    choices: dict[str, str]
    size: tuple[float, float]


_HERE = {"layer": "layer", "prompt": "prompt"}

FIGURES = {
    figure.name: figure
    for figure in (
        Figure(
            "depth", depth, "any metric over the layers, beside its null",
            {"metric": "name"}, (6.4, 3.6),
        ),
        Figure(
            "conditions", conditions, "each condition's defect as a share of chance",
            {}, (6.4, 3.8),
        ),
        Figure(
            "stability", stability, "distance to the next layer, three ways",
            {"metric": "name"}, (6.4, 3.6),
        ),
        Figure(
            "ledger", ledger, "the energy ledger as stacked areas",
            {"metric": "name"}, (6.4, 3.8),
        ),
        Figure(
            "heads", heads, "any metric of every head, layer by layer",
            {"metric": "name"}, (6.0, 4.2),
        ),
        Figure(
            "walk", walk, "the walk matrix of a layer",
            _HERE, (5.4, 4.8),
        ),
        Figure(
            "edges", edges, "effective rank (--metric norm: norm) of every edge",
            {**_HERE, "metric": "quantity"}, (5.4, 4.8),
        ),
        Figure(
            "singular_values", singular_values, "singular values of a layer's heads",
            {"layer": "layer", "head": "head"}, (6.4, 3.6),
        ),
        Figure(
            "spectrum", spectrum, "eigenvalues of the walk, with the unit circle",
            _HERE, (4.6, 4.6),
        ),
        Figure(
            "distances", distances, "distance of any two layers",
            {"metric": "name", "prompt": "prompt"}, (4.8, 4.2),
        ),
        Figure(
            "tokens", tokens, "where the walk goes, token by layer",
            {"metric": "name", "prompt": "prompt"}, (7.5, 4.0),
        ),
        Figure(
            "diffusion", diffusion, "vector diffusion map of the tokens",
            _HERE, (5.4, 4.4),
        ),
    )
}  # fmt: skip
"""Every figure; a new one is a function and an entry here."""


def figure_named(name: str) -> Figure:
    """Find a kind of figure.

    Args:
        name: of the figure.

    Returns:
        Its record.

    Raises:
        SelectionError: there is none of that name.
    """
    if name not in FIGURES:
        raise SelectionError(f"there is no figure {name!r}: choose from {', '.join(FIGURES)}")
    return FIGURES[name]


def arguments(figure: Figure, **asked: Any) -> dict[str, Any]:
    """Translate what was asked for into arguments of the function.

    Args:
        figure: the kind.
        **asked: ``metric``, ``layer``, ``head``, ``prompt``; None where nothing was asked.

    Returns:
        Keyword arguments.

    Raises:
        SelectionError: the figure does not take one of them.
    """
    for name, value in asked.items():
        if value is not None and name not in figure.choices:
            takes = ", ".join(f"--{n}" for n in figure.choices) or "no choice"
            raise SelectionError(f"figure {figure.name} has no --{name}: it takes {takes}")
    return {figure.choices[name]: value for name, value in asked.items() if value is not None}
