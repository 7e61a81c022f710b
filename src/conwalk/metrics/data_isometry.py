"""Is a head's transport an isometry on the vectors that it is really given? (Theory §3)."""

import torch

from conwalk.connection.stretch import Stretch
from conwalk.metrics.metric import HEAD, Arrays, LayerData, Metric, Quantity


def _compute(data: LayerData) -> Arrays:
    walk = data.walk
    if walk.output_gate is not None:
        # the map of a vector then depends on the receiver
        undefined = walk.attention.new_full((walk.n_heads,), torch.nan)
        return {"stretch_variation": undefined, "data_isometry_defect": undefined}
    stretch = Stretch.of(data.value_input, walk.transports, walk.value_scale)
    return {
        "stretch_variation": stretch.variation(),
        "data_isometry_defect": (1 - stretch.similarity().square()).clamp(0.0, 1.0),
    }


METRIC = Metric(
    name="data_isometry",
    quantities=(
        Quantity(
            "stretch_variation", "cv_j ‖x_j M_h‖/‖x_j‖", HEAD, "1", (0.0, None),
            "how unevenly a head stretches the vectors it is given: standard deviation over mean",
            "Theory §3", better="lower", null="Gaussian factors given the same vectors",
        ),
        Quantity(
            "data_isometry_defect", "1 − CKA(X, XM_h)²", HEAD, "1", (0.0, 1.0),
            "relative distance of a head's transport from a scaled isometry, as weighted by the "
            "vectors it is given; 0 if all their inner products change by one factor",
            "Theory §3", better="lower", null="Gaussian factors given the same vectors",
        ),
    ),
    chance="gaussian_factors",
    default=False,
    needs="heads",
    compute=_compute,
)  # fmt: skip
