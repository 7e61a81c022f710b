"""Whether a layer is nearer to its neighbour than to any other (Theory §4, shuffled layers)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import tolerance
from conwalk.connection import distances, shuffled_layers
from conwalk.metrics.depth_graphs import VARIANTS, keep_graphs, read_graphs, unanswered
from conwalk.metrics.metric import LAYER, Arrays, Metric, Quantity


def _finish(kept: Arrays) -> Arrays:
    found = unanswered(QUANTITIES, kept)
    for suffix, column in read_graphs(kept).items():
        matrix = distances.total_variations(column.graphs).double()
        curve = torch.full_like(matrix[0], torch.nan)
        curve[:-1] = matrix.diagonal(1)
        curve = column.spread_steps(curve)
        mean, sd = shuffled_layers.step_moments(matrix)
        order = shuffled_layers.path_moments(matrix, column.joined)
        everywhere = torch.ones_like(matrix[0])
        found[f"depth_tv_null_mean{suffix}"] = column.spread(mean * everywhere)
        found[f"depth_tv_null_sd{suffix}"] = column.spread(sd * everywhere)
        found[f"depth_tv_z{suffix}"] = _z(curve, mean, sd)
        found[f"depth_tv_order_z{suffix}"] = column.spread(_z(curve.nanmean(), *order) * everywhere)
    return found


def _z(
    observed: Float[Tensor, "*layer"], mean: Float[Tensor, ""], sd: Float[Tensor, ""]
) -> Float[Tensor, "*layer"]:
    """Standardise; NaN where the null does not vary."""
    varies = sd > tolerance.rounding(torch.float32) * mean
    return (observed - mean) / torch.where(varies, sd, torch.nan)


QUANTITIES = tuple(
    quantity
    for suffix, graph in VARIANTS.items()
    for quantity in (
        Quantity(
            f"depth_tv_null_mean{suffix}", "E d(π_l, π_l+1)", LAYER, "1", (0.0, 1.0),
            f"mean row total variation of two layers drawn at random: {graph}",
            "Theory §4", comparable=False,
        ),
        Quantity(
            f"depth_tv_null_sd{suffix}", "sd d(π_l, π_l+1)", LAYER, "1", (0.0, 0.5),
            f"standard deviation of the same over all pairs of layers: {graph}",
            "Theory §4", comparable=False,
        ),
        Quantity(
            f"depth_tv_z{suffix}", "(d(l, l+1) − mean) / sd", LAYER, "1", (None, None),
            f"total variation to the next layer against two layers drawn at random: {graph}",
            "Theory §4", better="lower", null="layers in random order: mean 0, sd 1",
        ),
        Quantity(
            f"depth_tv_order_z{suffix}", "(mean_l d(l, l+1) − E) / sd", LAYER, "1", (None, None),
            "mean step through the whole depth against all orders of the layers, exactly; the "
            f"same at every layer: {graph}",
            "Theory §4", better="lower", null="layers in random order: mean 0, sd 1",
            comparable=False,
        ),
    )
)  # fmt: skip

METRIC = Metric(
    name="depth_order",
    quantities=QUANTITIES,
    needs="depth",
    compute=keep_graphs,
    finish=_finish,
    default=False,
)
