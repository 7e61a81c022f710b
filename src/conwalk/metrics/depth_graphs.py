"""The graphs that comparisons between layers, or between prompts, are about (Theory §4)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from conwalk.connection import graphs
from conwalk.metrics.metric import Arrays, LayerData, Quantity

VARIANTS = {
    "": "walk matrix",
    "_no_sink": "walk matrix without the first token's column, rows renormalised",
    "_value": "value-weighted graph ∝ Σ_h A ‖x_j M_h‖",
}
"""The three ways every graph is read: the end of a quantity's name, and what it means."""


def keep_graphs(data: LayerData) -> Arrays:
    """Keep the walk matrix and the value-weighted graph of a layer, two n×n arrays.

    Both are NaN where weights are negative, and the second where what an edge carries depends
    on the receiver (an output gate): there is no such graph then. Theory §7.
    """
    walk = data.walk
    mean = graphs.mean_graph(walk)
    nothing = torch.full_like(mean, torch.nan)
    if walk.attention.amin() < 0:
        return {"mean": nothing, "value": nothing}
    gated = walk.output_gate is not None
    return {
        "mean": mean,
        "value": nothing if gated else graphs.value_graph(walk, data.value_input),
    }


@dataclass(frozen=True, eq=False)
class Column:
    """The graphs of the layers that have one, and their places among all layers.

    Attributes:
        graphs: those that are there.
        there: which of all layers they are.
    """

    graphs: Float[Tensor, "present query key"]
    there: Bool[Tensor, " layer"]

    @property
    def joined(self) -> Bool[Tensor, " step"]:
        """Which consecutive graphs are of consecutive layers."""
        return self.there.nonzero().squeeze(1).diff() == 1

    def spread(self, values: Float[Tensor, " present"]) -> Float[Tensor, " layer"]:
        """Put one number for each graph where its layer is; NaN elsewhere."""
        whole = values.new_full((len(self.there),), torch.nan)
        whole[self.there] = values
        return whole

    def spread_steps(self, values: Float[Tensor, " present"]) -> Float[Tensor, " layer"]:
        """The same for distances to the next graph: NaN where that is not the next layer's."""
        broken = torch.ones_like(values, dtype=torch.bool)
        broken[:-1] = ~self.joined
        return self.spread(values.masked_fill(broken, torch.nan))

    def spread_pairs(
        self, values: Float[Tensor, "present present"]
    ) -> Float[Tensor, "layer layer"]:
        """The same for all pairs of graphs."""
        n = len(self.there)
        whole = values.new_full((n, n), torch.nan)
        whole[self.there[:, None] & self.there] = values.flatten()
        return whole


def read_graphs(kept: Arrays) -> dict[str, Column]:
    """Give the graphs in each of the ``VARIANTS`` that any layer has.

    Args:
        kept: what ``keep_graphs`` gave, stacked; a graph is NaN everywhere or nowhere.

    Returns:
        By the end of the name.
    """
    mean, value = _column(kept["mean"]), _column(kept["value"])
    no_sink = Column(graphs.without_sink(mean.graphs), mean.there)
    return {s: c for s, c in zip(VARIANTS, (mean, no_sink, value), strict=True) if c.there.any()}


def _column(stacked: Float[Tensor, "layer query key"]) -> Column:
    there = ~stacked[:, 0, 0].isnan()
    return Column(stacked if there.all() else stacked[there], there)


def unanswered(quantities: tuple[Quantity, ...], kept: Arrays) -> dict[str, Tensor]:
    """Give every quantity as NaN, to be filled where there is an answer."""
    mean = kept["mean"]
    n = len(mean)
    return {q.name: mean.new_full((n,) * (1 + len(q.dims)), torch.nan) for q in quantities}
