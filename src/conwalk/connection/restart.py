"""Gaps of a walk that now and then restarts anywhere, and so forgets its start (Theory §2)."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection.stationary import is_stochastic, stationary_law

ALPHA = 0.15
"""Chance that a step restarts at a uniformly drawn token."""

POWERS = (1, 2, 3, 4)
"""Numbers of steps over which the pseudo-spectral gap is maximised."""


class RestartGaps(NamedTuple):
    """Spectral gaps of P_α = (1−α)P + α1uᵀ; all NaN where P is no chain of two or more states.

    Attributes:
        chung: second smallest eigenvalue of Chung's directed Laplacian, in [0, 2].
        multiplicative: 1 − λ₂ of the multiplicative reversibilisation P*P, in [0, 1].
        pseudo: max over ``POWERS`` of the gap of (P*)^k P^k over k (Paulin), in [0, 1].
    """

    chung: float
    multiplicative: float
    pseudo: float


def restart_gaps(walk: Float[Tensor, "query key"], alpha: float = ALPHA) -> RestartGaps:
    """Compute the gaps of the restart chain of a walk (Theory §2).

    Args:
        walk: P.
        alpha: chance of a restart, in (0, 1).

    Returns:
        The gaps, in float64.
    """
    if len(walk) < 2 or not is_stochastic(walk):
        return RestartGaps(torch.nan, torch.nan, torch.nan)
    chain = walk.double()
    chain = (1 - alpha) * chain / chain.sum(-1, keepdim=True) + alpha / len(walk)
    root = stationary_law(chain).sqrt()
    balanced = root[:, None] * chain / root
    symmetric = (balanced + balanced.mT) / 2
    chung = 1 - torch.linalg.eigvalsh(symmetric)[-2]
    gaps = _multiplicative(balanced - root[:, None] * root)
    return RestartGaps(
        float(chung.clamp(min=0)),
        float(gaps[0]),
        float((gaps / torch.tensor(POWERS).to(gaps)).max()),
    )


def _multiplicative(rest: Float[Tensor, "state state"]) -> Float[Tensor, " power"]:
    """Give 1 − σ₁² of each power of the balanced chain without its stationary direction."""
    power, sizes = torch.eye(len(rest)).to(rest), []
    for _ in range(max(POWERS)):
        power = power @ rest
        sizes.append(torch.linalg.matrix_norm(power, 2))
    gaps = 1 - torch.stack(sizes).square()
    return gaps[[step - 1 for step in POWERS]].clamp(min=0)
