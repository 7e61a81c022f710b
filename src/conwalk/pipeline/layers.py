"""Measure one layer of one prompt, from its whole attention or from blocks of query rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from conwalk.capture import CapturedLayer, CapturedOutput, CapturedRows
from conwalk.connection import ConnectionWalk
from conwalk.metrics import Arrays, LayerData, Metric
from conwalk.pipeline.collect import Collector
from conwalk.theorems import reconstruction_residual

Place = tuple[int, int]
"""Prompt and layer, as positions in the dataset."""

BY_ROWS = ("rows", "matrix")
WHOLE = ("heads", "scores", "depth", "prompts")


@dataclass
class _Growing:
    """What the blocks of one layer have given so far."""

    rebuilt: list[Tensor] = field(default_factory=list)
    arrays: list[dict[str, Arrays]] = field(default_factory=list)
    matrix: Tensor | None = None
    last: CapturedRows | None = None


class LayerPanel:
    """The metrics of a panel that look at one layer at a time.

    Args:
        panel: metrics; those of other kinds are passed over.
        heads: the heads to look at; None for all.
    """

    def __init__(self, panel: Sequence[Metric], heads: Sequence[int] | None) -> None:
        self._rows = [m for m in panel if m.needs == "rows"]
        self._matrix = [m for m in panel if m.needs == "matrix"]
        self._heads_metrics = [m for m in panel if m.needs == "heads"]
        self._scores = [m for m in panel if m.needs == "scores"]
        self._heads = None if heads is None else list(heads)
        self._growing: dict[Place, _Growing] = {}

    @property
    def wants_scores(self) -> bool:
        """Whether any metric reads the scores before the softmax."""
        return bool(self._scores)

    def declare(self, collector: Collector) -> None:
        """Make room for every quantity."""
        for metric in (*self._rows, *self._matrix, *self._heads_metrics, *self._scores):
            collector.declare_metric(metric)

    def data(self, layer: CapturedRows, scores: Tensor | None = None) -> LayerData:
        """A captured layer, or some of its rows, as metrics see it."""
        walk = layer.walk if self._heads is None else layer.walk.heads[self._heads]
        if scores is not None and self._heads is not None:
            scores = scores[self._heads]
        return LayerData(walk, layer.value_input, first=layer.first, scores=scores)

    def measure(self, layer: CapturedLayer, place: Place, collector: Collector) -> LayerData:
        """Measure a layer whose attention is there as a whole."""
        data = self.data(layer, layer.scores)
        for metric in self._rows:
            _put(metric.finish(metric.compute(data)), place, collector)
        for metric in (*self._matrix, *self._heads_metrics):
            _put(metric.compute(data), place, collector)
        if layer.scores is not None:
            for metric in self._scores:
                _put(metric.compute(data), place, collector)
        return data

    def take_rows(self, rows: CapturedRows, place: Place) -> LayerData:
        """Take a block of query rows; blocks come in order."""
        growing = self._growing.setdefault(place, _Growing())
        data = self.data(rows)
        growing.rebuilt.append(rows.walk(rows.value_input))
        growing.arrays.append({m.name: m.compute(data) for m in self._rows})
        if self._matrix:
            rows_of_walk = data.walk.walk_matrix()
            if growing.matrix is None:
                growing.matrix = rows_of_walk.new_empty(rows.n_rows, rows_of_walk.shape[1])
            growing.matrix[rows.first : rows.first + len(rows_of_walk)] = rows_of_walk
        growing.last = rows
        return data

    def close(
        self, output: CapturedOutput, place: Place, collector: Collector, limit: float
    ) -> float:
        """Prove a layer that came in rows, and if it is exact measure it.

        Returns:
            The residual of its output.
        """
        growing = self._growing.pop(place)
        residual = reconstruction_residual(torch.cat(growing.rebuilt), output.output)
        if residual <= limit and growing.last is not None:
            for metric in self._rows:
                joined = _joined([block[metric.name] for block in growing.arrays])
                _put(metric.finish(joined), place, collector)
            if growing.matrix is not None:
                data = _matrix_only(growing.matrix, growing.last)
                for metric in self._matrix:
                    _put(metric.compute(data), place, collector)
        return residual


def _put(values: Arrays, place: Place, collector: Collector) -> None:
    for name, value in values.items():
        collector.put(name, place, value)


def _joined(blocks: Sequence[Arrays]) -> Mapping[str, Tensor]:
    return {name: torch.cat([b[name] for b in blocks], -1) for name in blocks[0]}


def _matrix_only(matrix: Tensor, rows: CapturedRows) -> LayerData:
    """A layer of which only the walk matrix is kept: as a walk of one head, whatever its maps."""
    walk = ConnectionWalk.from_transports(matrix[None], rows.transports.select([0]))
    return LayerData(walk, rows.value_input)
