"""Figures for papers and notebooks: functions of results that return matplotlib axes."""

from conwalk.plot.areas import ledger
from conwalk.plot.curves import depth, stability
from conwalk.plot.files import check_file, write
from conwalk.plot.maps import distances, heads, tokens
from conwalk.plot.matrices import edges, walk
from conwalk.plot.panels import compose
from conwalk.plot.register import FIGURES, Figure, figure_named
from conwalk.plot.scatter import diffusion
from conwalk.plot.shares import condition_shares, conditions
from conwalk.plot.spectra import singular_values, spectrum

__all__ = [
    "FIGURES",
    "Figure",
    "check_file",
    "compose",
    "condition_shares",
    "conditions",
    "depth",
    "diffusion",
    "distances",
    "edges",
    "figure_named",
    "heads",
    "ledger",
    "singular_values",
    "spectrum",
    "stability",
    "tokens",
    "walk",
    "write",
]
