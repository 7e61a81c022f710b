"""Does the walk itself run both ways alike, and does it keep the uniform law? (Theory §2 b)."""

import torch

from conwalk.connection.stationary import (
    even_stationarity_defect,
    first_is_absorbing,
    flow_asymmetry,
    stationarity_defect,
)
from conwalk.metrics.metric import LAYER, Arrays, LayerData, Metric, Quantity


def _compute(data: LayerData) -> Arrays:
    walk = data.matrix
    square = walk.shape[0] == walk.shape[1]
    found = {
        "flow_asymmetry": flow_asymmetry(walk),
        "absorbing": float(first_is_absorbing(walk)) if square else torch.nan,
        "stationarity_defect": stationarity_defect(walk),
        "stationarity_defect_even": even_stationarity_defect(walk),
    }
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in found.items()}


METRIC = Metric(
    name="flow",
    quantities=(
        Quantity(
            "flow_asymmetry", "‖F − Fᵀ‖₁ / 2‖F‖₁", LAYER, "1", (0.0, 1.0),
            "share of the stationary flow F = diag(π)P between tokens that does not run back; not "
            "defined where one token absorbs the walk",
            "Theory §2 (b)", better="lower", null="0 for a reversible walk, 1 for a directed ring",
        ),
        Quantity(
            "absorbing", "[P_00 = 1]", LAYER, "1", (0.0, 1.0),
            "1 where a walk that reaches token 0 never leaves it, as in every causal walk",
            "Theory §2",
        ),
        Quantity(
            "stationarity_defect", "TV(μP, μ), μ uniform", LAYER, "1", (0.0, 1.0),
            "share of the uniform law that one step moves elsewhere",
            "Theory §2", better="lower", null="stationarity_defect_even", comparable=False,
        ),
        Quantity(
            "stationarity_defect_even", "TV(μU, μ)", LAYER, "1", (0.0, 1.0),
            "the same for attention spread evenly over the keys a query can reach; 1/e for long "
            "causal texts",
            "Theory §2", comparable=False,
        ),
    ),
    chance="shuffled_tokens",
    needs="matrix",
    compute=_compute,
)  # fmt: skip
