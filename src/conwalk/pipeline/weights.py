"""Measure what depends on the weights alone, once a layer, beside its null."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conwalk import dims
from conwalk.connection import HeadTransports
from conwalk.connection.fold import fold
from conwalk.metrics import Arrays, Metric, Quantity
from conwalk.models import Model, fingerprint
from conwalk.models.cache import root
from conwalk.models.linear import dtype_of
from conwalk.models.norms import value_gains
from conwalk.models.sites import AttentionSite
from conwalk.nulls import gaussian
from conwalk.pipeline.chance import declare_beside, finish_beside
from conwalk.pipeline.collect import Collector
from conwalk.results.weights_cache import Key, remembered

DRAWS = 128
"""Independent null heads for each shape of head."""
_FOLDER = "weights"

Numbers = Mapping[str, NDArray[np.float64]]


class WeightPanel:
    """The metrics of a panel that need no forward pass; what they gave is kept on disk.

    Args:
        panel: metrics; those that need more than weights are passed over.
        model: whose weights they are.
        seed: of the null's draws.
        heads: the heads to look at; None for all.
    """

    def __init__(
        self,
        panel: Sequence[Metric],
        model: Model,
        seed: int,
        heads: Sequence[int] | None = None,
    ) -> None:
        self._panel = [m for m in panel if m.of_weights]
        self._model = model
        self._seed = seed
        self._heads = None if heads is None else list(heads)
        self._nulls: dict[tuple[int, int, int], Tensor] = {}
        self._gains: dict[int, Tensor | None] = {}

    def declare(self, collector: Collector) -> None:
        """Make room for every quantity, and for what stands beside it."""
        for metric in self._panel:
            collector.declare_metric(metric)
        for quantity in self._compared():
            declare_beside(collector, quantity, (dims.LAYER, *quantity.dims))

    def find_gains(self, sites: Sequence[AttentionSite], probe: Mapping[str, object]) -> None:
        """Find the norm gains of the sites, if any metric wants them folded in."""
        if any(m.folded for m in self._panel):
            self.take_gains(sites, value_gains(self._model.module, sites, dict(probe)))

    def take_gains(self, sites: Sequence[AttentionSite], gains: Sequence[Tensor | None]) -> None:
        """Take norm gains that have been found already, one for each site."""
        self._gains = {s.index: g for s, g in zip(sites, gains, strict=True)}

    def measure(self, site: AttentionSite, place: int, collector: Collector) -> None:
        """Measure one layer's heads and set them beside the null of their shape. Theory §3."""
        key = Key(
            self._model.weights_hash,
            f"{site.path}#{site.call}",
            "+".join(m.name for m in self._panel),
            f"heads {self._heads}, {dtype_of(site.value.linear)}, seed {self._seed}"
            f"{self._effective(site)}",
        )
        kept = remembered(root() / _FOLDER, key, lambda: self._numbers(site))
        for name, values in kept.items():
            collector.put_numbers(name, (place,), values)

    def _effective(self, site: AttentionSite) -> str:
        """A live model's maps themselves: what adapters do to them is in no parameter's value."""
        if self._model.kind != "live":
            return ""
        maps = site.transports
        return f", {fingerprint.of_tensors(maps.W_V, maps.W_O, maps.b_V)}"

    def finish(self, collector: Collector) -> None:
        """Turn all z of a quantity into q once every head is in."""
        for quantity in self._compared():
            finish_beside(collector, quantity)

    def _numbers(self, site: AttentionSite) -> Numbers:
        found: dict[str, NDArray[np.float64]] = {}
        for folded in (False, True):
            transports = self._transports(site, folded=folded)
            if transports is None:
                continue
            panel = [m for m in self._panel if m.folded == folded]
            for name, value in self._of(transports, panel).items():
                found[name] = value.detach().double().cpu().numpy()
        return found

    def _of(self, transports: HeadTransports, panel: Sequence[Metric]) -> Arrays:
        found: dict[str, Tensor] = {}
        spectral = [m for m in panel if m.needs == "singular values"]
        for metric in panel:
            if metric.needs == "weights":
                found.update(metric.compute(transports))
        if spectral:
            observed, null = transports.singular_values(), self._null(transports)
            for metric in spectral:
                found.update(_beside(metric.compute, observed, null))
        return found

    def chosen(self, site: AttentionSite) -> HeadTransports:
        """The head maps of a layer, those of the heads that are looked at."""
        return site.transports if self._heads is None else site.transports.select(self._heads)

    def _transports(self, site: AttentionSite, *, folded: bool) -> HeadTransports | None:
        transports = self.chosen(site)
        if not folded:
            return transports
        gain = self._gains.get(site.index)
        return None if gain is None else fold(transports, gain)

    def _compared(self) -> list[Quantity]:
        return [q for m in self._panel if m.needs == "singular values" for q in m.quantities]

    def _null(self, transports: HeadTransports) -> Tensor:
        shape = (transports.width_in, transports.width_out, transports.value_width)
        if shape not in self._nulls:
            self._nulls[shape] = gaussian.singular_values(*shape, draws=DRAWS, seed=self._seed)
        return self._nulls[shape]


def _beside(compute: Callable[[Tensor], Arrays], observed: Tensor, null: Tensor) -> Arrays:
    """What a function of singular values gives, and the same of the null beside it."""
    found: dict[str, Tensor] = {}
    chance = compute(null)
    for name, value in compute(observed.double().cpu()).items():
        mean, sd = chance[name].mean(), chance[name].std()
        found[name] = value
        found[f"{name}_null_mean"] = mean.expand(value.shape)
        found[f"{name}_null_sd"] = sd.expand(value.shape)
        varies = sd > 0
        z = (value - mean) / torch.where(varies, sd, torch.ones_like(sd))
        found[f"{name}_z"] = torch.where(varies, z, torch.nan)
    return found
