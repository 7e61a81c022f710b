"""Measure what depends on the weights alone, once a layer, beside its null."""

from collections.abc import Sequence

from torch import Tensor

from conwalk import dims
from conwalk.connection import HeadTransports
from conwalk.metrics import Metric, Quantity
from conwalk.models.sites import AttentionSite
from conwalk.nulls import gaussian
from conwalk.pipeline.chance import declare_beside, finish_beside
from conwalk.pipeline.collect import Collector

DRAWS = 128
"""Independent null heads for each shape of head."""


class WeightPanel:
    """The metrics of a panel that need no forward pass.

    Args:
        panel: metrics; those that need more than weights are passed over.
        seed: of the null's draws.
        heads: the heads to look at; None for all.
    """

    def __init__(
        self, panel: Sequence[Metric], seed: int, heads: Sequence[int] | None = None
    ) -> None:
        self._spectral = [m for m in panel if m.needs == "singular values"]
        self._others = [m for m in panel if m.needs == "weights"]
        self._seed = seed
        self._heads = None if heads is None else list(heads)
        self._nulls: dict[tuple[int, int, int], Tensor] = {}

    def declare(self, collector: Collector) -> None:
        """Make room for every quantity, and for what stands beside it."""
        for metric in (*self._spectral, *self._others):
            collector.declare_metric(metric)
        for quantity in self._compared():
            declare_beside(collector, quantity, (dims.LAYER, *quantity.dims))

    def measure(self, site: AttentionSite, place: int, collector: Collector) -> None:
        """Measure one layer's heads and set them beside the null of their shape. Theory §3."""
        transports = site.transports
        if self._heads is not None:
            transports = transports.select(self._heads)
        for metric in self._others:
            for name, value in metric.compute(transports).items():
                collector.put(name, (place,), value)
        if not self._spectral:
            return
        observed, null = transports.singular_values(), self._null(transports)
        for metric in self._spectral:
            chance = metric.compute(null)
            for name, value in metric.compute(observed).items():
                mean, sd = chance[name].mean(), chance[name].std()
                collector.put(name, (place,), value)
                collector.put(f"{name}_null_mean", (place,), mean.expand(value.shape))
                collector.put(f"{name}_null_sd", (place,), sd.expand(value.shape))
                collector.put(f"{name}_z", (place,), (value.double().cpu() - mean) / sd)

    def finish(self, collector: Collector) -> None:
        """Turn all z of a quantity into q once every head is in."""
        for quantity in self._compared():
            finish_beside(collector, quantity)

    def _compared(self) -> list[Quantity]:
        return [q for m in self._spectral for q in m.quantities]

    def _null(self, transports: HeadTransports) -> Tensor:
        shape = (transports.width_in, transports.width_out, transports.value_width)
        if shape not in self._nulls:
            self._nulls[shape] = gaussian.singular_values(*shape, draws=DRAWS, seed=self._seed)
        return self._nulls[shape]
