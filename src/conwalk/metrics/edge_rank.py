"""How many directions the transport of an edge really carries, over every edge (Theory §3)."""

from torch import Tensor

from conwalk.connection import ConnectionWalk, edge_effective_ranks
from conwalk.connection.edge_spectra import edge_rank_limit
from conwalk.metrics.metric import LAYER, Arrays, LayerData, Metric, Quantity


def _rows(data: LayerData) -> Arrays:
    walk = data.walk
    if walk.output_gate is not None:
        # a gate at the receiver leaves no closed form
        nothing = walk.attention.new_full((walk.n_queries,), float("nan"))
        return dict.fromkeys(("weight", "rank", "chance", "largest"), nothing)
    weight = data.matrix.abs()
    rank = edge_effective_ranks(walk)
    present = weight * rank.isfinite()
    return {
        "weight": present.sum(-1),
        "rank": (present * rank.nan_to_num()).sum(-1),
        "chance": (present * _chance(walk)).sum(-1),
        "largest": present.sum(-1) * edge_rank_limit(walk),
    }


def _chance(walk: ConnectionWalk) -> Tensor:
    """Effective rank of every edge if the heads were Gaussian maps of one norm.

    Heads that share a value map count as one: their output maps add up to one Gaussian map.
    """
    square = walk.attention.square()
    if walk.transports.group > 1:
        square = square.unflatten(0, (-1, walk.transports.group)).sum(1)
    heads = square.sum(0).square() / square.square_().sum(0)
    k, d = walk.transports.value_width, walk.transports.width_in
    return (1 / (1 / (k * heads) + 2 / d)).nan_to_num()


def _finish(rows: Arrays) -> Arrays:
    weight = rows["weight"].sum()
    return {
        "edge_rank": rows["rank"].sum() / weight,
        "edge_rank_chance": rows["chance"].sum() / weight,
        "edge_rank_share": rows["rank"].sum() / rows["largest"].sum(),
    }


METRIC = Metric(
    name="edge_rank",
    quantities=(
        Quantity(
            "edge_rank", "r_eff", LAYER, "1", (1.0, None),
            "participation rank of an edge's transport, mean over edges weighted by the walk",
            "Theory §3", null="edge_rank_chance", comparable=True,
        ),
        Quantity(
            "edge_rank_chance", "1 / (1/(k H₂) + 2/d)", LAYER, "1", (0.0, None),
            "the same for Gaussian head maps of equal norm, shared and mixed in the same way",
            "Theory §3", comparable=True,
        ),
        Quantity(
            "edge_rank_share", "r_eff / min(d, H_V k)", LAYER, "1", (0.0, 1.0),
            "the same as a share of the largest rank an edge could have; H_V value heads",
            "Theory §3", better="higher", comparable=True,
        ),
    ),
    chance="gaussian_factors",
    needs="rows",
    compute=_rows,
    finish=_finish,
)  # fmt: skip
