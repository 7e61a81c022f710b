"""Metric compatibility: are the transports, as used, isometries of one scale? (Theory §2 c)."""

import torch

from conwalk.connection.compatibility import (
    Moments,
    common_scale,
    isometry_defect,
    largest_rank,
    moments,
    moments_by_chance,
    shape_defect,
)
from conwalk.metrics.metric import LAYER, Arrays, LayerData, Metric, Quantity

_OBSERVED, _CHANCE = "observed ", "chance "


def _rows(data: LayerData) -> Arrays:
    walk = data.walk
    rank = torch.full((walk.n_queries,), float(largest_rank(walk)))
    if walk.output_gate is not None:
        missing = torch.full_like(rank, torch.nan)
        observed = chance = Moments(missing, missing, missing, missing)
    else:
        observed, chance = moments(walk), moments_by_chance(walk)
    return {
        "rank": rank,
        **{_OBSERVED + name: rows for name, rows in observed._asdict().items()},
        **{_CHANCE + name: rows for name, rows in chance._asdict().items()},
    }


def _finish(rows: Arrays) -> Arrays:
    rank = int(rows["rank"][0])
    observed, chance = _picked(rows, _OBSERVED), _picked(rows, _CHANCE)
    found = {
        "metric_defect": isometry_defect(observed, rank),
        "metric_defect_chance": isometry_defect(chance, rank),
        "metric_shape_defect": shape_defect(observed),
        "transport_scale": common_scale(observed.weight, observed.second, rank),
    }
    undefined = bool(observed.weight.isnan().any())
    return {name: v.new_tensor(torch.nan) if undefined else v for name, v in found.items()}


def _picked(rows: Arrays, prefix: str) -> Moments:
    return Moments(*(rows[prefix + name] for name in Moments._fields))


METRIC = Metric(
    name="compatibility",
    quantities=(
        Quantity(
            "metric_defect", "1 − (ΣW‖T‖²)² / (R ΣW ΣW‖TᵀT‖²)", LAYER, "1", (0.0, 1.0),
            "relative squared distance of T_ijᵀT_ij from s² times a projection of rank R, one s, "
            "R = min(d, k · value heads), mean over edges weighted by the walk; 0 if and only if "
            "every present edge is an isometry of rank R and scale s",
            "Theory §2 (c)", better="lower", null="metric_defect_chance",
        ),
        Quantity(
            "metric_defect_chance", "the same, Gaussian heads", LAYER, "1", (0.0, 1.0),
            "the same for independent Gaussian head maps of equal norm, mixed by the same gates",
            "Theory §3",
        ),
        Quantity(
            "metric_shape_defect", "1 − ΣW‖T‖⁴ / (R ΣW‖TᵀT‖²)", LAYER, "1", (0.0, 1.0),
            "the part of it that stays when every edge has a scale of its own",
            "Theory §2 (c)", better="lower",
        ),
        Quantity(
            "transport_scale", "√(ΣW‖T‖² / (R ΣW))", LAYER, "1", (0.0, None),
            "the common scale s that comes closest, for the uniform weighting of the heads",
            "Theory §2 (c)",
        ),
    ),
    chance="gaussian_factors",
    needs="rows",
    compute=_rows,
    finish=_finish,
    default=False,
)  # fmt: skip
