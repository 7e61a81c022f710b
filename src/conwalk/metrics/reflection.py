"""Could one head be a connection by itself: is its nearest isometry a reflection? (Theory §3)."""

import torch

from conwalk.connection import HeadTransports
from conwalk.connection.reflection import antisymmetric_share, antisymmetric_share_by_chance
from conwalk.metrics.metric import HEAD, LAYER, Arrays, Metric, Quantity


def _compute(transports: HeadTransports) -> Arrays:
    if transports.width_in != transports.width_out:
        undefined = transports.W_O.new_full((transports.n_heads,), torch.nan)
        return {"antisymmetric_share": undefined, "antisymmetric_share_chance": undefined[0]}
    share = antisymmetric_share(transports)
    chance = share.new_tensor(antisymmetric_share_by_chance(transports.width_in))
    return {"antisymmetric_share": share, "antisymmetric_share_chance": chance}


METRIC = Metric(
    name="reflection",
    quantities=(
        Quantity(
            "antisymmetric_share", "‖(O − Oᵀ)/2‖² / ‖O‖²", HEAD, "1", (0.0, 1.0),
            "antisymmetric share of the polar factor of a head's transport on its subspace; 0 for "
            "a reflection, all a constant connection can be",
            "Theory §3", better="lower", null="antisymmetric_share_chance",
        ),
        Quantity(
            "antisymmetric_share_chance", "(1 − 1/d) / 2", LAYER, "1", (0.0, 0.5),
            "the same for independent random subspaces",
            "Theory §3",
        ),
    ),
    needs="weights",
    compute=_compute,
)  # fmt: skip
