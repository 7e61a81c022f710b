"""Is the connection flat: do ways around loops agree, and can a gauge make them (Theory §5)?"""

import torch

from conwalk.connection import ConnectionWalk
from conwalk.connection.frustration import frustration
from conwalk.connection.loop import triangle_holonomy
from conwalk.connection.reduced import RANK
from conwalk.connection.symmetrised import symmetrise
from conwalk.metrics.metric import LAYER, Arrays, LayerData, Metric, Quantity


def _has_loops(walk: ConnectionWalk) -> bool:
    return walk.is_square and walk.output_gate is None


def _arrays(names: tuple[str, ...], numbers: tuple[float, ...]) -> Arrays:
    pairs = zip(names, numbers, strict=True)
    return {name: torch.tensor(number, dtype=torch.float64) for name, number in pairs}


def _holonomy(data: LayerData) -> Arrays:
    names = tuple(q.name for q in HOLONOMY.quantities)
    if not _has_loops(data.walk):
        return _arrays(names, (torch.nan,) * len(names))
    found = triangle_holonomy(data.walk)
    return _arrays(names, (found.defect, found.standard_error, found.constant, found.excess))


def _frustration(data: LayerData) -> Arrays:
    names = tuple(q.name for q in FRUSTRATION.quantities)
    if not _has_loops(data.walk):
        return _arrays(names, (torch.nan,) * len(names))
    own = frustration(symmetrise(data.walk))
    constant = frustration(symmetrise(data.walk, constant=True))
    return _arrays(names, (own.value, own.bound, constant.bound))


HOLONOMY = Metric(
    name="holonomy",
    quantities=(
        Quantity(
            "holonomy", "1 − cos(U_jl U_ij, U_il)", LAYER, "1", (0.0, 2.0),
            "disagreement of the two ways around a triangle of tokens, mean by weight of the "
            f"walk, on the {RANK} directions the heads use most; 0 is flat, 1 unrelated",
            "Theory §5", better="lower", null="holonomy_constant", comparable=False,
        ),
        Quantity(
            "holonomy_error", "s.e.", LAYER, "1", (0.0, None),
            "standard error of the mean over sampled triangles; 0 where all were taken",
            "Theory §5", comparable=False,
        ),
        Quantity(
            "holonomy_constant", "1 − cos(U̅², U̅)", LAYER, "1", (0.0, 2.0),
            "the same with the walk's mean transport on every edge",
            "Theory §5", comparable=False,
        ),
        Quantity(
            "holonomy_excess", "holonomy − constant", LAYER, "1", (-2.0, 2.0),
            "curvature beyond what a constant transport has",
            "Theory §5", better="lower", null="0 for a constant transport", comparable=False,
        ),
    ),
    needs="heads",
    compute=_holonomy,
    default=False,
    chance="gaussian_factors",
)  # fmt: skip

FRUSTRATION = Metric(
    name="frustration",
    quantities=(
        Quantity(
            "frustration", "½ Σ W_ij ‖g_i − g_j O_ij‖² / (r Σ D)", LAYER, "1", (0.0, 2.0),
            "what the best gauge found leaves of the symmetrised connection, on the "
            f"{RANK} directions the heads use most; 0 is flat",
            "Theory §5", better="lower", null="frustration_bound", comparable=False,
        ),
        Quantity(
            "frustration_bound", "mean of the r smallest λ", LAYER, "1", (0.0, 2.0),
            "lower bound of the same over all gauges, from the connection Laplacian",
            "Theory §5", better="lower", comparable=False,
        ),
        Quantity(
            "frustration_bound_constant", "the same for T̅ on every edge", LAYER, "1", (0.0, 2.0),
            "the lower bound with the walk's mean transport on every edge; its eigenspaces are "
            "degenerate, so that no single gauge is the best one",
            "Theory §5", comparable=False,
        ),
    ),
    needs="heads",
    compute=_frustration,
    default=False,
    chance="gaussian_factors",
)  # fmt: skip

METRICS = (HOLONOMY, FRUSTRATION)
