"""Measure one layer of one prompt, from its whole attention or from blocks of query rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from conwalk.capture import CapturedLayer, CapturedOutput, CapturedRows
from conwalk.connection import ConnectionWalk, HeadTransports
from conwalk.metrics import Arrays, LayerData, Metric
from conwalk.pipeline.blocks import Joined
from conwalk.pipeline.collect import Collector
from conwalk.theorems import reconstruction_residual

Place = tuple[int, int]
"""Prompt and layer, as positions in the dataset."""

BY_ROWS = ("rows", "matrix")
WHOLE = ("heads", "scores", "depth", "prompts")

_LAYER = ""
"""Owner of what the blocks of a layer give besides the arrays of metrics."""


@dataclass(frozen=True)
class _Growing:
    """What the blocks of one layer have given so far."""

    rebuilt: Joined
    joined: Joined
    transports: HeadTransports
    value_input: Tensor


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

    def take_rows(
        self, rows: CapturedRows, place: Place, measured: CapturedRows | None = None
    ) -> LayerData | None:
        """Take a block of query rows; blocks come in order.

        Args:
            rows: what the layer is proven by.
            place: where it is.
            measured: those of these rows that metrics look at; all by default.

        Returns:
            What metrics were given; None where there is no row to look at.
        """
        measured = rows if measured is None else measured
        if place not in self._growing:
            joined = Joined(rows.n_rows), Joined(measured.n_rows)
            self._growing[place] = _Growing(*joined, rows.transports, measured.value_input)
        growing = self._growing[place]
        growing.rebuilt.put(_LAYER, "rebuilt", rows.walk(rows.value_input), rows.first, 0)
        if not measured.attention.shape[1]:
            return None
        data = self.data(measured)
        for metric in self._rows:
            for name, part in metric.compute(data).items():
                growing.joined.put(metric.name, name, part, measured.first)
        if self._matrix:
            growing.joined.put(_LAYER, "matrix", data.matrix, measured.first, 0)
        return data

    def close(
        self,
        output: CapturedOutput,
        place: Place,
        collector: Collector,
        limit: float,
        *,
        measure: bool = True,
    ) -> float:
        """Prove a layer that came in rows, and if it is exact measure it.

        Args:
            output: what the layer put out.
            place: where it is.
            collector: where numbers go.
            limit: the largest residual that counts as exact.
            measure: whether there is anything to measure.

        Returns:
            The residual of its output.
        """
        growing = self._growing.pop(place)
        residual = reconstruction_residual(growing.rebuilt.of(_LAYER)["rebuilt"], output.output)
        if residual <= limit and measure:
            for metric in self._rows:
                _put(metric.finish(growing.joined.of(metric.name)), place, collector)
            if self._matrix:
                data = _matrix_only(growing.joined.of(_LAYER)["matrix"], growing)
                for metric in self._matrix:
                    _put(metric.compute(data), place, collector)
        return residual


def _put(values: Arrays, place: Place, collector: Collector) -> None:
    for name, value in values.items():
        collector.put(name, place, value)


def _matrix_only(matrix: Tensor, growing: _Growing) -> LayerData:
    """A layer of which only the walk matrix is kept: as a walk of one head, whatever its maps."""
    walk = ConnectionWalk.from_transports(matrix[None], growing.transports.select([0]))
    return LayerData(walk, growing.value_input, given=matrix)
