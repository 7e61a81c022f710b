"""What keeps a head's transport from a scaled isometry: its singular values, six ways (Theory §3).

All are defined for a zero map: shares are 0, the distance is 1, ratios are NaN.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import tolerance
from conwalk.metrics.metric import HEAD, Arrays, Metric, Quantity


def isometry_distance(singular_values: Float[Tensor, "*head k"]) -> Float[Tensor, "*head"]:
    """δ = √(1 − ρ²), the distance to the nearest scaled isometry of rank k over ‖M‖_F.

    Computed from the spread of σ, which does not cancel where ρ is close to 1. Theory §3.
    """
    mean = singular_values.mean(-1, keepdim=True)
    off = (singular_values - mean).square().sum(-1)
    total = singular_values.square().sum(-1)
    return torch.where(total > 0, off / total, torch.ones_like(total)).clamp(max=1.0).sqrt()


def participation_ratio(singular_values: Float[Tensor, "*head k"]) -> Float[Tensor, "*head"]:
    """PR = (Σσ²)² / (k Σσ⁴), the share of the k directions that take part. Theory §3."""
    weights = _relative(singular_values).square()
    share = weights.sum(-1).square() / (weights.shape[-1] * weights.square().sum(-1))
    return share.nan_to_num(nan=0.0).clamp(max=1.0)


def condition_number(singular_values: Float[Tensor, "*head k"]) -> Float[Tensor, "*head"]:
    """κ₂ = σ_1/σ_k; NaN where σ_k is 0 up to rounding. Theory §3."""
    largest, least = singular_values.amax(-1), singular_values.amin(-1)
    k = singular_values.shape[-1]
    full = least > largest * tolerance.rounding(singular_values.dtype, k)
    return torch.where(full, largest / least, torch.nan)


def stable_rank(singular_values: Float[Tensor, "*head k"]) -> Float[Tensor, "*head"]:
    """‖M‖_F² / σ_1², between 1 and k; 0 for a zero map. Theory §3."""
    return _relative(singular_values).square().sum(-1).nan_to_num(nan=0.0)


def flatness(singular_values: Float[Tensor, "*head k"]) -> Float[Tensor, "*head"]:
    """Geometric over arithmetic mean of σ; 0 where a singular value is 0. Theory §3."""
    relative = _relative(singular_values)
    share = relative.log().mean(-1).exp() / relative.mean(-1)
    return share.nan_to_num(nan=0.0).clamp(max=1.0)


def variation(singular_values: Float[Tensor, "*head k"]) -> Float[Tensor, "*head"]:
    """CV(σ), standard deviation over mean of the singular values; NaN for a zero map. Theory §3."""
    relative = _relative(singular_values)
    return relative.std(-1, correction=0) / relative.mean(-1)


def _relative(singular_values: Float[Tensor, "*head k"]) -> Float[Tensor, "*head k"]:
    """Over the largest, so that fourth powers neither overflow nor vanish; NaN for a zero map."""
    largest = singular_values.amax(-1, keepdim=True)
    return singular_values / torch.where(largest > 0, largest, torch.nan)


def _compute(singular_values: Float[Tensor, "*head k"]) -> Arrays:
    return {
        "isometry_distance": isometry_distance(singular_values),
        "participation_ratio": participation_ratio(singular_values),
        "condition_number": condition_number(singular_values),
        "stable_rank": stable_rank(singular_values),
        "flatness": flatness(singular_values),
        "singular_variation": variation(singular_values),
    }


_NULL = "Gaussian factors of the same shape"

METRIC = Metric(
    name="spectral_shape",
    quantities=(
        Quantity(
            "isometry_distance", "δ = √(1 − ρ²)", HEAD, "1", (0.0, 1.0),
            "relative distance of a head's transport to the nearest scaled isometry of rank k",
            "Theory §3", better="lower", null=_NULL,
        ),
        Quantity(
            "participation_ratio", "(Σσ²)² / (k Σσ⁴)", HEAD, "1", (0.0, 1.0),
            "share of a head's k directions that take part in its transport",
            "Theory §3", better="higher", null=_NULL,
        ),
        Quantity(
            "condition_number", "σ_1 / σ_k", HEAD, "1", (1.0, None),
            "largest over smallest stretch of a head's transport on its subspace",
            "Theory §3", better="lower", null=_NULL,
        ),
        Quantity(
            "stable_rank", "‖M‖_F² / σ_1²", HEAD, "1", (0.0, None),
            "number of directions that would carry the transport if all were as strong as the "
            "strongest",
            "Theory §3", better="higher", null=_NULL,
        ),
        Quantity(
            "flatness", "GM(σ) / AM(σ)", HEAD, "1", (0.0, 1.0),
            "geometric over arithmetic mean of the singular values of a head's transport",
            "Theory §3", better="higher", null=_NULL,
        ),
        Quantity(
            "singular_variation", "sd(σ) / mean(σ)", HEAD, "1", (0.0, None),
            "coefficient of variation of the singular values of a head's transport",
            "Theory §3", better="lower", null=_NULL,
        ),
    ),
    needs="singular values",
    compute=_compute,
)  # fmt: skip
