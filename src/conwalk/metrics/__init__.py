"""Metrics: one file for each question, and the register of all of them."""

from conwalk.metrics import edge_rank, entropy, isometry, sink, stochasticity
from conwalk.metrics.metric import Arrays, LayerData, Metric, Quantity

ALL: tuple[Metric, ...] = (
    stochasticity.METRIC,
    sink.METRIC,
    entropy.METRIC,
    isometry.METRIC,
    edge_rank.METRIC,
)

__all__ = ["ALL", "Arrays", "LayerData", "Metric", "Quantity"]
