"""How figures look: colours that everybody can tell apart, one size of text, no globals changed."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from conwalk.plot.fonts import families

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
CHANCE = "#6b6b6b"
ABSENT = "#e9e9e9"
SEQUENTIAL = "cividis"
WEIGHTS = "Blues"
DIVERGING = "RdBu_r"
SIZE = (6.4, 3.6)
# inches from the axes to the legend: the ticks and the name of the axis
_BELOW = 0.46


def settings() -> Any:
    """Settings of matplotlib under which figures are made and written."""
    return {
        "font.family": list(families()),
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.titlelocation": "left",
        "axes.labelsize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.unicode_minus": True,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "lines.linewidth": 1.6,
        "savefig.dpi": 200,
        # tokens and formulas are written as they stand; a $ is a dollar
        "text.parse_math": False,
        "pdf.fonttype": 42,
        # the same figure is the same file
        "svg.hashsalt": "conwalk",
        # text stays text: to be searched, read aloud and edited, and half the size
        "svg.fonttype": "none",
        "svg.id": "conwalk",
    }


@contextmanager
def canvas(ax: "Axes | None", size: tuple[float, float] = SIZE) -> "Generator[Axes]":
    """Give axes to draw on, under the settings of this package.

    Args:
        ax: axes of the caller, or None for a figure of its own.
        size: width and height of that figure in inches.

    Yields:
        The axes.
    """
    import matplotlib as mpl

    with mpl.rc_context(settings()):
        yield _own(size) if ax is None else ax


def put_legend(axes: "Axes", columns: int = 2) -> None:
    """Explain the curves below the axes, where nothing is drawn over.

    Args:
        axes: with labelled curves; a label met again is not repeated.
        columns: how many labels stand side by side.
    """
    from matplotlib.transforms import ScaledTranslation

    handles, labels = axes.get_legend_handles_labels()
    once: dict[str, Any] = {}
    # what was measured first, then what it is compared with
    for label, handle in sorted(
        zip(labels, handles, strict=True), key=lambda pair: pair[0].startswith("chance")
    ):
        once.setdefault(label, handle)
    inch = axes.figure.dpi_scale_trans
    axes.legend(
        list(once.values()), list(once), ncols=columns, loc="upper left", borderaxespad=0.0,
        bbox_to_anchor=(0.0, 0.0),
        bbox_transform=axes.transAxes + ScaledTranslation(0.0, -_BELOW, inch),
    )  # fmt: skip


def _own(size: tuple[float, float]) -> "Axes":
    # through pyplot, so that a notebook shows it; where there is no display it draws to memory
    from matplotlib import pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]
