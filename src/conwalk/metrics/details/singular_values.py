"""Singular values of the heads' transports, and the band of Gaussian ones (Theory §3)."""

from jaxtyping import Float
from torch import Tensor

from conwalk import dims
from conwalk.metrics.metric import Quantity

COORDINATE = "coordinate"
LOW, HIGH = 0.05, 0.95

SIGMA = Quantity(
    "singular_values", "σ", (dims.HEAD, COORDINATE), "1", (0.0, None),
    "singular values of a head's transport, descending", "Theory §3",
)  # fmt: skip
BAND = tuple(
    Quantity(
        f"singular_values_null_{end}", "σ / rms σ", (COORDINATE,), "1", (0.0, None),
        f"{share:.0%} of heads with independent Gaussian factors of that shape have less",
        "Theory §3",
    )
    for end, share in (("low", LOW), ("high", HIGH))
)  # fmt: skip
QUANTITIES = (SIGMA, *BAND)


def null_band(
    null: Float[Tensor, "draw value"],
) -> tuple[Float[Tensor, " value"], Float[Tensor, " value"]]:
    """Give the band that nine in ten random heads stay in, coordinate by coordinate.

    Args:
        null: singular values of drawn heads.

    Returns:
        5 % and 95 % quantiles of σ over the root mean square of a head's σ.
    """
    relative = null / null.square().mean(-1, keepdim=True).sqrt()
    return relative.quantile(LOW, 0), relative.quantile(HIGH, 0)
