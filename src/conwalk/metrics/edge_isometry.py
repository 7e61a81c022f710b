"""How close the transports of single edges are to isometries, from sampled edges (Theory §3)."""

import torch
from torch import Tensor

from conwalk.connection import ConnectionWalk
from conwalk.connection.edge_spectra import edge_singular_values, sample_edges
from conwalk.connection.random_maps import gaussian_maps
from conwalk.metrics.isometry import isometry_score
from conwalk.metrics.metric import LAYER, Arrays, LayerData, Metric, Quantity

EDGES = 32
"""How many edges are drawn, with replacement, each as often as the walk takes it."""
_SEED = 0


def _compute(data: LayerData) -> Arrays:
    walk = data.walk
    generator = torch.Generator().manual_seed(_SEED)
    queries, keys = sample_edges(walk.walk_matrix().abs(), EDGES, generator)
    if not len(queries):
        undefined = walk.attention.new_tensor(torch.nan)
        return {"edge_rho": undefined, "edge_rho_error": undefined, "edge_rho_chance": undefined}
    observed = isometry_score(edge_singular_values(walk, queries, keys))
    chance = isometry_score(edge_singular_values(_by_chance(walk, generator), queries, keys))
    return {
        "edge_rho": observed.mean(),
        "edge_rho_error": _standard_error(observed),
        "edge_rho_chance": chance.mean(),
    }


def _by_chance(walk: ConnectionWalk, generator: torch.Generator) -> ConnectionWalk:
    """The same gates over Gaussian maps, which heads get by their weight, not by their number."""
    part = walk.heads[_by_weight(walk).tolist()]
    return ConnectionWalk.from_transports(
        part.attention,
        gaussian_maps(part.transports, generator),
        value_scale=part.value_scale,
        output_gate=part.output_gate,
    )


def _by_weight(walk: ConnectionWalk) -> Tensor:
    """Heads by what they carry, those that share a value map side by side."""
    group = walk.transports.group
    carried = walk.attention.double().square().sum((1, 2)) * walk.transports.norms().double()
    weight = carried.unflatten(0, (-1, group))
    groups = weight.sum(1).argsort(descending=True)
    return (groups[:, None] * group + weight[groups].argsort(1, descending=True)).flatten()


def _standard_error(sample: Tensor) -> Tensor:
    return sample.std() / len(sample) ** 0.5


METRIC = Metric(
    name="edge_isometry",
    quantities=(
        Quantity(
            "edge_rho", "‖T_ij‖_* / (√r ‖T_ij‖_F)", LAYER, "1", (0.0, 1.0),
            "isometry score of an edge's transport on the largest subspace it could have, "
            f"r = min(d, k · value heads): mean over {EDGES} edges drawn by the walk",
            "Theory §3", better="higher", null="edge_rho_chance",
        ),
        Quantity(
            "edge_rho_error", "sd / √m", LAYER, "1", (0.0, None),
            "standard error of that mean over the drawn edges",
            "Theory §3", better="lower",
        ),
        Quantity(
            "edge_rho_chance", "ρ of Gaussian heads", LAYER, "1", (0.0, 1.0),
            "the same for one draw of independent Gaussian head maps of equal norms, mixed by the "
            "same gates of the same edges",
            "Theory §3",
        ),
    ),
    needs="heads",
    compute=_compute,
    default=False,
)  # fmt: skip
