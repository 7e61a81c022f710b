"""Measure what takes several layers of a prompt, or one layer of several prompts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from conwalk import dims
from conwalk.metrics import LayerData, Metric
from conwalk.metrics.metric import Compute
from conwalk.pipeline.collect import Collector, attributes

Kept = Mapping[str, Any]


class DepthPanel:
    """The metrics of a panel that compare layers with layers, or prompts with prompts.

    Of every layer it keeps what the metrics' ``compute`` returns, for the first kind until the
    prompt is done, for the second until the run is. Metrics with one ``compute`` share it.
    Layers are compared within a stack; one that was not taken leaves a hole of NaN.

    Args:
        panel: metrics; those of other kinds are passed over.
        stacks: the stack of every place, in the order of the places.
    """

    def __init__(self, panel: Sequence[Metric], stacks: Sequence[str]) -> None:
        self._depth = [m for m in panel if m.needs == "depth"]
        self._prompts = [m for m in panel if m.needs == "prompts"]
        self._stacks = {s: [p for p, t in enumerate(stacks) if t == s] for s in stacks}
        self._n_places = len(stacks)
        self._of_prompt: dict[int, dict[int, dict[Compute, Kept]]] = {}
        self._of_place: dict[int, dict[Compute, list[Kept]]] = {}

    def declare(self, collector: Collector) -> None:
        """Make room for every quantity; those over prompts have one number a layer."""
        for metric in self._depth:
            collector.declare_metric(metric)
        for metric in self._prompts:
            for quantity in metric.quantities:
                axes = (dims.LAYER, *quantity.dims)
                collector.declare(quantity.name, axes, attributes(quantity))

    def take(self, data: LayerData, prompt: int, place: int) -> None:
        """Keep what the metrics need of one layer."""
        wanted = {m.compute for m in (*self._depth, *self._prompts)}
        kept = {compute: compute(data) for compute in wanted}
        if self._depth:
            self._of_prompt.setdefault(prompt, {})[place] = kept
        of_place = self._of_place.setdefault(place, {})
        for compute in {m.compute for m in self._prompts}:
            of_place.setdefault(compute, []).append(kept[compute])

    def finish_prompt(self, prompt: int, collector: Collector) -> None:
        """Compare the layers of a prompt, and let go of them."""
        layers = self._of_prompt.pop(prompt, {})
        for metric in self._depth:
            kept = {place: layer[metric.compute] for place, layer in layers.items()}
            for places in self._stacks.values():
                self._compare(metric, kept, places, prompt, collector)

    def finish(self, collector: Collector) -> None:
        """Compare the prompts at every layer: those of the most frequent shape."""
        for place, by_compute in self._of_place.items():
            for metric in self._prompts:
                kept = _alike(by_compute[metric.compute])
                stacked = _stack(kept)
                for name, value in metric.finish(stacked).items():
                    collector.put(name, (place,), value)
        self._of_place.clear()

    def _compare(
        self,
        metric: Metric,
        kept: Mapping[int, Kept],
        places: Sequence[int],
        prompt: int,
        collector: Collector,
    ) -> None:
        """Compare the layers of one stack, those of each shape among themselves."""
        shapes = {place: _shape(kept[place]) for place in places if place in kept}
        for shape in set(shapes.values()):
            column = [kept[p] if shapes.get(p) == shape else None for p in places]
            for name, values in metric.finish(_stack(column)).items():
                for place, layer, value in zip(places, column, values, strict=True):
                    if layer is not None:
                        collector.put(
                            name, (prompt, place), self._spread(metric, name, value, places)
                        )

    def _spread(self, metric: Metric, name: str, value: Tensor, places: Sequence[int]) -> Tensor:
        """Put a row over the layers of a stack where they are among all layers."""
        quantity = next(q for q in metric.quantities if q.name == name)
        if dims.LAYER_TO not in quantity.dims:
            return value
        axis = quantity.dims.index(dims.LAYER_TO)
        shape = (*value.shape[:axis], self._n_places, *value.shape[axis + 1 :])
        index = torch.tensor(places, device=value.device)
        return value.new_full(shape, torch.nan).index_copy(axis, index, value)


def _stack(column: Sequence[Kept | None]) -> dict[str, Any]:
    """Stack tensors, with NaN in the holes; list anything else, with None in the holes."""
    example = next(kept for kept in column if kept is not None)
    return {
        name: _stack_one([k and k[name] for k in column], part) for name, part in example.items()
    }


def _stack_one(parts: Sequence[Any], example: Any) -> Any:
    if not isinstance(example, Tensor):
        return list(parts)
    if all(part is not None for part in parts):
        return torch.stack(list(parts))
    if not example.is_floating_point():
        example = example.double()
    hole = torch.full_like(example, torch.nan)
    return torch.stack([hole if part is None else part for part in parts])


def _shape(kept: Kept) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((n, tuple(p.shape)) for n, p in kept.items() if isinstance(p, Tensor))


def _alike(column: Sequence[Kept]) -> list[Kept]:
    """Keep those of the most frequent shape, of the larger one where two are as frequent."""
    counts = Counter(_shape(kept) for kept in column)
    chosen = max(counts, key=lambda shape: (counts[shape], shape))
    return [kept for kept in column if _shape(kept) == chosen]
