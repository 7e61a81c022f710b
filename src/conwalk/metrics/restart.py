"""How fast does the walk forget its start, if it restarts now and then? (Theory §2)."""

import torch

from conwalk.connection.restart import ALPHA, POWERS, restart_gaps
from conwalk.metrics.metric import LAYER, Arrays, LayerData, Metric, Quantity

_CHAIN = f"the chain that restarts at a uniform token with chance {ALPHA}"


def _compute(data: LayerData) -> Arrays:
    gaps = restart_gaps(data.walk.walk_matrix())
    found = {
        "restart_gap": gaps.chung,
        "restart_multiplicative_gap": gaps.multiplicative,
        "restart_pseudo_gap": gaps.pseudo,
    }
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in found.items()}


METRIC = Metric(
    name="restart",
    quantities=(
        Quantity(
            "restart_gap", "λ₂(I − (D + Dᵀ)/2)", LAYER, "1", (0.0, 2.0),
            f"second smallest eigenvalue of Chung's directed Laplacian of {_CHAIN}",
            "Theory §2", null="1 for even attention to all tokens",
        ),
        Quantity(
            "restart_multiplicative_gap", "1 − λ₂(P*P)", LAYER, "1", (0.0, 1.0),
            f"gap of the multiplicative reversibilisation of {_CHAIN}",
            "Theory §2", null="1 for even attention to all tokens",
        ),
        Quantity(
            "restart_pseudo_gap", "max_k (1 − λ₂(P*ᵏPᵏ)) / k", LAYER, "1", (0.0, 1.0),
            f"pseudo-spectral gap of {_CHAIN}, over k from {POWERS[0]} to {POWERS[-1]} steps",
            "Theory §2", null="1 for even attention to all tokens",
        ),
    ),
    chance="shuffled_tokens",
    needs="matrix",
    compute=_compute,
    default=False,
)  # fmt: skip
