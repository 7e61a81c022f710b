"""How close each head's transport is to a scaled isometry of its own subspace (Theory §3)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.metrics.metric import HEAD, Arrays, Metric, Quantity


def isometry_score(singular_values: Float[Tensor, "*head k"]) -> Float[Tensor, "*head"]:
    """ρ = ‖M‖_* / (√k ‖M‖_F) from singular values; 1 for a scaled partial isometry of rank k.

    A zero map is no isometry and scores 0. Theory §3.
    """
    nuclear = singular_values.sum(-1)
    frobenius = singular_values.square().sum(-1).sqrt()
    score = nuclear / (singular_values.shape[-1] ** 0.5 * frobenius)
    return torch.where(frobenius > 0, score, torch.zeros_like(score)).clamp(max=1.0)


def _compute(singular_values: Float[Tensor, "*head k"]) -> Arrays:
    return {"rho": isometry_score(singular_values)}


METRIC = Metric(
    name="isometry",
    quantities=(
        Quantity(
            "rho", "‖M‖_* / (√k ‖M‖_F)", HEAD, "1", (0.0, 1.0),
            "isometry score of a head's transport on its rank-k subspace; 1 is a scaled isometry",
            "Theory §3", better="higher", null="Gaussian factors of the same shape",
        ),
    ),
    needs="singular values",
    compute=_compute,
)  # fmt: skip
