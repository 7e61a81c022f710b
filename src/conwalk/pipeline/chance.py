"""Measure layers again under their nulls, and set what was observed beside it."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from conwalk import dims, nulls
from conwalk.metrics import Arrays, LayerData, Metric, Quantity
from conwalk.pipeline.collect import Collector
from conwalk.pipeline.layers import Place
from conwalk.stats import benjamini_hochberg, two_sided

BESIDE = {
    "null_mean": "mean of {name} over the null",
    "null_sd": "standard deviation of {name} over the null",
    "z": "({name} − null mean) / null sd",
    "q": "false discovery rate of {name} differing from its null, over all that were tested",
}
LOOKS_AT_LAYERS = ("rows", "matrix", "heads")


def declare_beside(collector: Collector, quantity: Quantity, axes: tuple[str, ...]) -> None:
    """Make room for what stands beside a quantity: null mean and sd, z, q."""
    for suffix, meaning in BESIDE.items():
        attrs = {"unit": "1", "long_name": meaning.format(name=quantity.name)}
        collector.declare(f"{quantity.name}_{suffix}", axes, attrs)


def finish_beside(collector: Collector, quantity: Quantity) -> None:
    """Turn all z of a quantity into q (Benjamini and Hochberg)."""
    z = collector.variables[f"{quantity.name}_z"].values
    q = benjamini_hochberg(two_sided(np.asarray(z)))
    collector.variables[f"{quantity.name}_q"].values[...] = q


class ChancePanel:
    """The metrics of a panel that name a null for layers, computed again on draws of it.

    Args:
        panel: metrics; those without such a null are passed over.
        draws: draws a layer; one is enough for a null without randomness.
        seed: of the draws; every layer of every prompt has a generator of its own.
    """

    def __init__(self, panel: Sequence[Metric], draws: int, seed: int) -> None:
        chosen = [m for m in panel if m.chance is not None and m.needs in LOOKS_AT_LAYERS]
        self._metrics = chosen if draws else []
        self._draws = draws
        self._seed = seed

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Those that are computed again on draws."""
        return tuple(self._metrics)

    def declare(self, collector: Collector) -> None:
        """Make room beside every quantity."""
        for metric in self._metrics:
            for quantity in metric.quantities:
                axes = (dims.PROMPT, dims.LAYER, *quantity.dims)
                declare_beside(collector, quantity, axes)

    def measure(self, data: LayerData, place: Place, collector: Collector) -> None:
        """Draw the nulls of one layer and compare what is in the collector with them."""
        by_null: dict[str, list[Metric]] = {}
        for metric in self._metrics:
            by_null.setdefault(str(metric.chance), []).append(metric)
        for name, wanted in by_null.items():
            for metric, drawn in self._drawn(name, wanted, data, place).items():
                for quantity in metric.quantities:
                    _compare(quantity.name, drawn, place, collector)

    def finish(self, collector: Collector) -> None:
        """Turn all z into q once every layer is in."""
        for metric in self._metrics:
            for quantity in metric.quantities:
                finish_beside(collector, quantity)

    def _drawn(
        self, name: str, wanted: Sequence[Metric], data: LayerData, place: Place
    ) -> Mapping[Metric, list[Arrays]]:
        null = nulls.ALL[name]
        seed = np.random.SeedSequence([self._seed, *place]).generate_state(1)[0]
        generator = torch.Generator().manual_seed(int(seed))
        found: dict[Metric, list[Arrays]] = {metric: [] for metric in wanted}
        for _ in range(1 if null.deterministic else self._draws):
            drawn = null.draw(data, generator)
            for metric in wanted:
                found[metric].append(metric.finish(metric.compute(drawn)))
        return found


def _compare(name: str, drawn: Sequence[Arrays], place: Place, collector: Collector) -> None:
    draws = [_numbers(arrays, name) for arrays in drawn]
    size = tuple(slice(0, n) for n in draws[0].shape)
    observed = np.asarray(collector.variables[name].values[(*place, *size)])
    beside = nulls.compare(observed, draws)
    collector.put_numbers(f"{name}_null_mean", place, beside.mean)
    collector.put_numbers(f"{name}_null_sd", place, beside.sd)
    collector.put_numbers(f"{name}_z", place, beside.z)


def _numbers(arrays: Arrays, name: str) -> NDArray[np.float64]:
    return arrays[name].detach().double().cpu().numpy()
