"""Inverse consistency: does the transport back undo the transport there? (Theory §2 c)."""

from conwalk.connection.inverse import inverse_defects
from conwalk.metrics.metric import LAYER, Arrays, LayerData, Metric, Quantity


def _compute(data: LayerData) -> Arrays:
    found = inverse_defects(data.walk)
    like = data.walk.attention
    return {
        "inverse_defect": like.new_tensor(found.pairs),
        "self_loop_defect": like.new_tensor(found.loops),
    }


METRIC = Metric(
    name="inverse_consistency",
    quantities=(
        Quantity(
            "inverse_defect", "‖T_ji − T_ijᵀ‖² / (‖T_ij‖² + ‖T_ji‖²)", LAYER, "1", (0.0, 2.0),
            "distance of a transport from the transpose of the one that runs back, mean over the "
            "pairs of tokens with both edges weighted by the walk; causal walks have no such pair",
            "Theory §2 (c)", better="lower", null="1 for independent random head maps",
        ),
        Quantity(
            "self_loop_defect", "‖T_ii − T_iiᵀ‖² / 2‖T_ii‖²", LAYER, "1", (0.0, 2.0),
            "the same for the edges of tokens to themselves, where O_ii = O_iiᵀ is a reflection",
            "Theory §2 (c)", better="lower", null="1 for independent random head maps",
        ),
    ),
    chance="gaussian_factors",
    needs="heads",
    compute=_compute,
    default=False,
)  # fmt: skip
