"""Metrics: one file for each question, and the register of all of them."""

from conwalk.metrics import (
    compatibility,
    composition,
    curvature,
    data_isometry,
    edge_isometry,
    edge_rank,
    eigen_spread,
    entropy,
    fixed_kernel,
    flow,
    inverse,
    isometry,
    layer_order,
    ledger,
    lifted_stability,
    reflection,
    restart,
    reversibility,
    sink,
    spectral_shape,
    spectrum,
    stability,
    stochasticity,
)
from conwalk.metrics.folded import folded
from conwalk.metrics.metric import Arrays, LayerData, Metric, Quantity

ALL: tuple[Metric, ...] = (
    stochasticity.METRIC,
    reversibility.METRIC,
    flow.METRIC,
    restart.METRIC,
    compatibility.METRIC,
    inverse.METRIC,
    ledger.METRIC,
    ledger.FITTED,
    ledger.TOKENS,
    ledger.HEADS,
    ledger.STATIONARY,
    isometry.METRIC,
    folded(isometry.METRIC),
    spectral_shape.METRIC,
    reflection.METRIC,
    eigen_spread.METRIC,
    *composition.METRICS,
    data_isometry.METRIC,
    edge_rank.METRIC,
    edge_isometry.METRIC,
    *spectrum.METRICS,
    *curvature.METRICS,
    sink.METRIC,
    entropy.METRIC,
    *stability.METRICS,
    layer_order.METRIC,
    *lifted_stability.METRICS,
    fixed_kernel.METRIC,
)
"""Every metric; a new one is one file and one line here."""

__all__ = ["ALL", "Arrays", "LayerData", "Metric", "Quantity"]
