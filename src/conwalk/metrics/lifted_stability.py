"""How much the lifted operator Σ A_h ⊗ M_h changes from layer to layer (Theory §4)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import dims
from conwalk.connection import ConnectionWalk
from conwalk.connection.distances import relative_distance, relative_to_uniform
from conwalk.connection.lifted import cross_gram, evened, lifted_inner
from conwalk.metrics.metric import LAYER, Arrays, LayerData, Metric, Quantity

Walks = Sequence[ConnectionWalk | None]


def keep_walk(data: LayerData) -> Mapping[str, Any]:
    """Keep the walk by reference, with the attention of every head and the shared maps.

    Nothing where an output gate makes the operator another kind (Theory §7).
    """
    return {"walk": data.walk if data.walk.output_gate is None else None}


def _steps(kept: Mapping[str, Any]) -> Arrays:
    walks: Walks = kept["walk"]
    own, away = _sizes(walks)
    gap = torch.full_like(own, torch.nan)
    for layer, (first, second) in enumerate(pairwise(walks)):
        gap[layer] = own[layer] + own[layer + 1] - 2 * _inner(first, second)
    gap = gap.clamp(min=0)
    return {
        "depth_lifted": relative_distance(gap, (own + own.roll(-1)) / 2),
        "depth_lifted_relative": relative_to_uniform(gap.sqrt(), away, away.roll(-1)),
    }


def _all_pairs(kept: Mapping[str, Any]) -> Arrays:
    walks: Walks = kept["walk"]
    own, _ = _sizes(walks)
    gap = torch.diag(own * 0)
    for i, first in enumerate(walks):
        for j, second in enumerate(walks[:i]):
            gap[i, j] = gap[j, i] = own[i] + own[j] - 2 * _inner(first, second)
    return {"depth_lifted_matrix": relative_distance(gap, (own[:, None] + own) / 2)}


def _inner(first: ConnectionWalk | None, second: ConnectionWalk | None) -> Float[Tensor, ""]:
    """Give ⟨𝒲, 𝒲'⟩, NaN unless both are there and act between the same spaces."""
    if first is None or second is None:
        return torch.tensor(torch.nan)
    if (first.domain, first.codomain) != (second.domain, second.codomain):
        return torch.tensor(torch.nan)
    return lifted_inner(first, second)


def _sizes(walks: Walks) -> tuple[Float[Tensor, " layer"], Float[Tensor, " layer"]]:
    """Give ‖𝒲‖² of every layer, and the distance ‖𝒲 − 𝒲_uniform‖; NaN without a walk."""
    own = torch.full((len(walks),), torch.nan, dtype=torch.float64)
    away = own.clone()
    for layer, walk in enumerate(walks):
        if walk is None:
            continue
        gram, flat = cross_gram(walk.transports, walk.transports), evened(walk)
        own[layer] = lifted_inner(walk, walk, gram)
        even, both = lifted_inner(flat, flat, gram), lifted_inner(walk, flat, gram)
        away[layer] = (own[layer].to(even) + even - 2 * both).clamp(min=0).sqrt()
    return own, away


_SYMBOL = "‖𝒲 − 𝒲'‖_F / √(½‖𝒲‖² + ½‖𝒲'‖²)"

STEPS = Metric(
    name="depth_lifted",
    quantities=(
        Quantity(
            "depth_lifted", _SYMBOL, LAYER, "1", (0.0, 2.0),
            "distance of the walk, transports included, to the next layer's",
            "Theory §4", better="lower", null="√2 for layers that have nothing in common",
        ),
        Quantity(
            "depth_lifted_relative", "2 d(l, l+1) / (d(l, U) + d(l+1, U))", LAYER, "1", (0.0, None),
            "the same over the mean distance of the two to their own maps with even attention",
            "Theory §4", better="lower",
        ),
    ),
    needs="depth",
    compute=keep_walk,
    finish=_steps,
    default=False,
)  # fmt: skip

MATRIX = Metric(
    name="depth_lifted_matrix",
    quantities=(
        Quantity(
            "depth_lifted_matrix", _SYMBOL, (dims.LAYER_TO,), "1", (0.0, 2.0),
            "distance of the walks of any two layers, transports included",
            "Theory §4", null="√2 for layers that have nothing in common",
        ),
    ),
    needs="depth",
    compute=keep_walk,
    finish=_all_pairs,
    default=False,
)  # fmt: skip

METRICS = (STEPS, MATRIX)
