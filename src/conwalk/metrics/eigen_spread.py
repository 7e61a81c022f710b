"""Does a head stretch its eigenvectors alike? A question without inner product (Theory §3)."""

import torch

from conwalk.connection import HeadTransports
from conwalk.connection.eigenvalues import (
    eigenvalues,
    log_modulus_spread,
    log_modulus_spread_by_chance,
)
from conwalk.metrics.metric import HEAD, LAYER, Arrays, Metric, Quantity


def _compute(transports: HeadTransports) -> Arrays:
    if transports.width_in != transports.width_out:
        undefined = transports.W_O.new_full((transports.n_heads,), torch.nan)
        return {
            "eigen_spread": undefined,
            "eigen_zero_share": undefined,
            "eigen_spread_chance": undefined[0],
            "eigen_spread_chance_sd": undefined[0],
        }
    spread, zero = log_modulus_spread(eigenvalues(transports))
    mean, sd = log_modulus_spread_by_chance(transports.width_in, transports.value_width)
    return {
        "eigen_spread": spread,
        "eigen_zero_share": zero,
        "eigen_spread_chance": spread.new_tensor(mean),
        "eigen_spread_chance_sd": spread.new_tensor(sd),
    }


METRIC = Metric(
    name="eigen_spread",
    quantities=(
        Quantity(
            "eigen_spread", "sd log|λ(W_O W_V)|", HEAD, "1", (0.0, None),
            "spread of the log moduli of the nonzero eigenvalues of a head's transport; the same "
            "in every basis of the residual stream, orthogonal or not",
            "Theory §3", better="lower", null="eigen_spread_chance",
        ),
        Quantity(
            "eigen_zero_share", "#{λ = 0} / k", HEAD, "1", (0.0, 1.0),
            "share of the k eigenvalues that are 0 up to rounding and left out of the spread",
            "Theory §3", better="lower", null="0",
        ),
        Quantity(
            "eigen_spread_chance", "sd log|λ|", LAYER, "1", (0.0, None),
            "the spread for Gaussian factors of the same shape, mean over sampled heads",
            "Theory §3",
        ),
        Quantity(
            "eigen_spread_chance_sd", "sd of sd log|λ|", LAYER, "1", (0.0, None),
            "standard deviation of that spread over sampled heads",
            "Theory §3",
        ),
    ),
    needs="weights",
    compute=_compute,
)  # fmt: skip
