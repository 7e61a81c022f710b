"""The tokens of a layer as points: near where many short ways agree (Theory §5)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import dims
from conwalk.connection import ConnectionWalk
from conwalk.connection.diffusion import principal_axes, vector_diffusion_map
from conwalk.connection.symmetrised import symmetrise
from conwalk.metrics.metric import Quantity

AXIS = "axis"
AXES = 3
_RANK = 4
_FIELDS = 8
_MOST = 256

QUANTITIES = (
    Quantity(
        "diffusion_map", "φ_i", (dims.TOKEN, AXIS), "1", (None, None),
        "principal axes of the vector diffusion map of the tokens, one double step, from "
        f"{_FIELDS} fields on the {_RANK} directions the heads use most; signs are by convention",
        "Theory §5", comparable=False,
    ),
)  # fmt: skip


def token_map(walk: ConnectionWalk) -> Float[Tensor, "token axis"] | None:
    """Place the tokens by their vector diffusion map, on its principal axes.

    Args:
        walk: any walk.

    Returns:
        Three coordinates a token; None if the walk is not square, has an output gate, fewer than
        two tokens, or more than 256, for which it would take longer than the rest.
    """
    if not walk.is_square or walk.output_gate is not None or not 1 < walk.n_queries <= _MOST:
        return None
    graph = symmetrise(walk, rank=_RANK)
    found = vector_diffusion_map(graph, min(_FIELDS, walk.n_queries * graph.rank))
    points = principal_axes(found.coordinates)[:, :AXES]
    return torch.nn.functional.pad(points, (0, AXES - points.shape[1]))
