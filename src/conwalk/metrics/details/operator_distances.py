"""How far apart the walks of any two layers are, transports included (Theory §4)."""

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import dims
from conwalk.connection import ConnectionWalk
from conwalk.connection.distances import relative_distance
from conwalk.connection.lifted import cross_gram, lifted_inner
from conwalk.metrics.metric import Quantity

QUANTITIES = (
    Quantity(
        "operator_distance", "‖𝒲 − 𝒲'‖_F / √(½‖𝒲‖² + ½‖𝒲'‖²)", (dims.LAYER_TO,), "1", (0.0, 2.0),
        "distance of the walks of any two layers, transports included",
        "Theory §4", null="√2 for layers that have nothing in common",
    ),
)  # fmt: skip

Grams = dict[tuple[int, int], Tensor]
"""⟨M[h], M'[g]⟩ by pair of places; they do not depend on the prompt."""


def operator_distances(
    walks: Mapping[int, ConnectionWalk], grams: Grams
) -> tuple[Sequence[int], Float[Tensor, "place place"]]:
    """Compute the distances of all pairs of layers of one prompt.

    Args:
        walks: by place; those with an output gate are passed over.
        grams: inner products of head maps, filled as they are needed.

    Returns:
        The places that were compared, and the distances in [0, 2], float64; NaN between walks
        over different tokens or widths.
    """
    places = [p for p in sorted(walks) if walks[p].output_gate is None]
    inner = torch.full((len(places), len(places)), torch.nan, dtype=torch.float64)
    for i, j in combinations_with_replacement(range(len(places)), 2):
        first, second = walks[places[i]], walks[places[j]]
        if (first.domain, first.codomain) == (second.domain, second.codomain):
            pair = (places[i], places[j])
            if pair not in grams:
                grams[pair] = cross_gram(first.transports, second.transports)
            inner[i, j] = inner[j, i] = lifted_inner(first, second, grams[pair])
    own = inner.diagonal()
    return places, relative_distance(own[:, None] + own - 2 * inner, (own[:, None] + own) / 2)
