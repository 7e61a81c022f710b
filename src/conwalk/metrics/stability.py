"""How much the effective graph changes from layer to layer (Theory §4)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import dims
from conwalk.connection import distances, graph_spectra, graphs
from conwalk.metrics.depth_graphs import VARIANTS, keep_graphs, read_graphs, unanswered
from conwalk.metrics.metric import LAYER, Arrays, Metric, Quantity

HEAT_TIMES = (1, 4)
"""Diffusion times of the heat kernels, in units of the normalised Laplacian."""

BOTTOM = 8
"""Dimension of the bottom subspace of the Laplacian."""

Features = Callable[[Tensor], Mapping[str, Tensor]]
"""What the distances of a ruler compare, by name, of a batch of graphs."""


@dataclass(frozen=True)
class Ruler:
    """One way to measure the distance of two graphs.

    Attributes:
        name: what it is called in the names of quantities.
        symbol: how formulas write it.
        meaning: what it compares.
        bound: its largest value, or None.
        distance: the function.
        absolute: what is divided by the same to the uniform kernel: the distance as a metric, not
            relative to the size of the graphs and NaN where it is none; itself by default.
        all_pairs: the function for all pairs of layers, where there is a faster one.
    """

    name: str
    symbol: str
    meaning: str
    bound: float | None
    distance: distances.Distance
    absolute: distances.Distance | None = None
    all_pairs: Callable[[Tensor], Tensor] | None = None


def _compare(kept: Arrays, *, features: Features, rulers: tuple[Ruler, ...]) -> Arrays:
    found = unanswered(_curve_quantities(rulers), kept)
    for suffix, column in read_graphs(kept).items():
        own, flat = features(column.graphs), _of_uniform(column.graphs, features)
        for ruler in rulers:
            objects, uniform = own[ruler.name], flat[ruler.name]
            absolute = ruler.absolute or ruler.distance
            away = distances.one_by_one(absolute, objects, uniform)
            steps = distances.adjacent(ruler.distance, objects)
            ratio = distances.relative_to_uniform(
                steps if ruler.absolute is None else distances.adjacent(absolute, objects),
                away,
                away.roll(-1),
            )
            found[f"depth_{ruler.name}{suffix}"] = column.spread_steps(steps)
            found[f"depth_{ruler.name}_relative{suffix}"] = column.spread_steps(ratio)
    return found


def _compare_all(kept: Arrays, *, features: Features, rulers: tuple[Ruler, ...]) -> Arrays:
    found = unanswered(_matrix_quantities(rulers), kept)
    for suffix, column in read_graphs(kept).items():
        own, flat = features(column.graphs), _of_uniform(column.graphs, features)
        for ruler in rulers:
            objects, uniform = own[ruler.name], flat[ruler.name]
            away = distances.one_by_one(ruler.distance, objects, uniform)
            pairs = ruler.all_pairs or partial(distances.pairwise, ruler.distance)
            found[f"depth_{ruler.name}_uniform{suffix}"] = column.spread(away)
            found[f"depth_{ruler.name}_matrix{suffix}"] = column.spread_pairs(pairs(objects))
    return found


def _of_uniform(
    stacked: Float[Tensor, "layer query key"], features: Features
) -> Mapping[str, Tensor]:
    """Compute features of the uniform kernels: of one, where all layers reach the same keys."""
    reached = stacked[0] != 0
    shared = all(torch.equal(graph != 0, reached) for graph in stacked[1:])
    return features(graphs.uniform_graph(stacked[:1] if shared else stacked))


def _graph_itself(stacked: Float[Tensor, "layer query key"]) -> dict[str, Tensor]:
    return {"tv": stacked, "frobenius": stacked}


def _spectra(stacked: Float[Tensor, "layer query key"]) -> dict[str, Tensor]:
    return {"spectrum": graph_spectra.singular_spectra(stacked)}


def _diffusion(stacked: Float[Tensor, "layer query key"]) -> dict[str, Tensor]:
    names = [*(f"heat_{time}" for time in HEAT_TIMES), f"subspace_{BOTTOM}"]
    if stacked.shape[1] != stacked.shape[2]:
        return dict.fromkeys(names, stacked.new_full((len(stacked), 1, 1), torch.nan))
    values, vectors = torch.linalg.eigh(graph_spectra.normalised_laplacian(stacked.double()))
    heat = [graph_spectra.heat_kernel(values, vectors, float(time)) for time in HEAT_TIMES]
    bottom = graph_spectra.bottom_projector(values, vectors, BOTTOM)
    return dict(zip(names, [*heat, bottom], strict=True))


def _curve_quantities(rulers: tuple[Ruler, ...]) -> tuple[Quantity, ...]:
    steps = [
        Quantity(
            f"depth_{ruler.name}{suffix}", ruler.symbol, LAYER, "1", (0.0, ruler.bound),
            f"distance to the next layer by {ruler.meaning}: {graph}",
            "Theory §4", better="lower", null="layers in random order", comparable=False,
        )
        for ruler in rulers
        for suffix, graph in VARIANTS.items()
    ]  # fmt: skip
    relative = [
        Quantity(
            f"depth_{ruler.name}_relative{suffix}", "2 d(l, l+1) / (d(l, U) + d(l+1, U))",
            LAYER, "1", (0.0, None),
            f"distance to the next layer by {ruler.meaning}, over the mean distance of the two "
            f"to even attention on the same edges: {graph}",
            "Theory §4", better="lower",
        )
        for ruler in rulers
        for suffix, graph in VARIANTS.items()
    ]  # fmt: skip
    return (*steps, *relative)


def _matrix_quantities(rulers: tuple[Ruler, ...]) -> tuple[Quantity, ...]:
    pairs = [
        Quantity(
            f"depth_{ruler.name}_matrix{suffix}", ruler.symbol, (dims.LAYER_TO,), "1",
            (0.0, ruler.bound), f"distance of any two layers by {ruler.meaning}: {graph}",
            "Theory §4", comparable=False,
        )
        for ruler in rulers
        for suffix, graph in VARIANTS.items()
    ]  # fmt: skip
    uniform = [
        Quantity(
            f"depth_{ruler.name}_uniform{suffix}", ruler.symbol, LAYER, "1", (0.0, ruler.bound),
            f"distance to even attention on the same edges by {ruler.meaning}: {graph}",
            "Theory §4", comparable=False,
        )
        for ruler in rulers
        for suffix, graph in VARIANTS.items()
    ]  # fmt: skip
    return (*pairs, *uniform)


def _family(
    name: str, features: Features, rulers: tuple[Ruler, ...], *, default: bool = False
) -> tuple[Metric, Metric]:
    """Make the metric of the steps from layer to layer, and that of all pairs of layers."""
    curve = Metric(
        name=f"depth_{name}",
        quantities=_curve_quantities(rulers),
        needs="depth",
        compute=keep_graphs,
        finish=partial(_compare, features=features, rulers=rulers),
        default=default,
    )
    matrix = Metric(
        name=f"depth_{name}_matrix",
        quantities=_matrix_quantities(rulers),
        needs="depth",
        compute=keep_graphs,
        finish=partial(_compare_all, features=features, rulers=rulers),
        default=False,
    )
    return curve, matrix


_TV = Ruler(
    "tv", "mean_i ½ Σ_j |P_ij − P'_ij|", "mean total variation of the rows", 1.0,
    distances.total_variation, all_pairs=distances.total_variations,
)  # fmt: skip
_FROBENIUS = Ruler(
    "frobenius", "‖P − P'‖_F / √(½‖P‖² + ½‖P'‖²)", "relative Frobenius norm", 2.0,
    distances.relative_frobenius, distances.frobenius,
)  # fmt: skip
_SPECTRUM = Ruler(
    "spectrum", "mean_m |σ_m − σ'_m|", "Wasserstein-1 of the singular spectra", None,
    graph_spectra.spectral_wasserstein,
)  # fmt: skip
_HEAT = tuple(
    Ruler(
        f"heat_{time}", f"‖e^(−{time}L) − e^(−{time}L')‖_F, relative",
        f"heat kernels of the symmetrised graphs' Laplacians at time {time}", 2.0,
        distances.relative_frobenius, distances.frobenius,
    )
    for time in HEAT_TIMES
)  # fmt: skip
_SUBSPACE = Ruler(
    f"subspace_{BOTTOM}", "√(mean_m sin²θ_m)",
    f"principal angles of the bottom {BOTTOM} dimensions of the symmetrised graphs' Laplacians",
    1.0, graph_spectra.subspace_distance, graph_spectra.equal_rank_distance,
)  # fmt: skip

TV, TV_MATRIX = _family("tv", _graph_itself, (_TV,), default=True)
FROBENIUS, FROBENIUS_MATRIX = _family("frobenius", _graph_itself, (_FROBENIUS,))
SPECTRUM, SPECTRUM_MATRIX = _family("spectrum", _spectra, (_SPECTRUM,))
DIFFUSION, DIFFUSION_MATRIX = _family("diffusion", _diffusion, (*_HEAT, _SUBSPACE))

METRICS = (
    TV,
    TV_MATRIX,
    FROBENIUS,
    FROBENIUS_MATRIX,
    SPECTRUM,
    SPECTRUM_MATRIX,
    DIFFUSION,
    DIFFUSION_MATRIX,
)
