"""Null models: what a number would be by chance."""

from collections.abc import Mapping
from types import MappingProxyType

from conwalk.nulls import fresh, gaussian, kernels, layers, maps
from conwalk.nulls.compare import Comparison, compare
from conwalk.nulls.null import Null

_ALL = (
    Null(
        "gaussian_factors", "layer",
        "attention, inputs, shapes, ‖M_h‖_F",
        "both factors of every head: independent Gaussian",
        maps.gaussian_factors,
    ),
    Null(
        "haar_factors", "layer",
        "attention, inputs, shapes, ‖M_h‖_F",
        "both factors of every head: Haar isometries, the ceiling ρ = 1",
        maps.haar_factors,
    ),
    Null(
        "shuffled_gauge", "layer",
        "attention, inputs, singular values of both factors as stored",
        "the rotation between the factors of every head: Haar",
        maps.shuffled_gauge,
    ),
    Null(
        "fresh_weights", "model",
        "configuration",
        "all weights: the architecture's own initialisation",
        fresh.fresh_weights,
    ),
    Null(
        "shuffled_tokens", "layer",
        "mask, weights of every row, gates of every edge, head maps",
        "which present key gets which weight: one order of the tokens for all rows and heads",
        kernels.shuffled_tokens,
        section="Theory §4",
    ),
    Null(
        "position_only", "layer",
        "mask, row sums, mean weight at every offset of every head, head maps",
        "all that depends on content: replaced by its mean over the offset",
        kernels.position_only,
        deterministic=True,
        section="Theory §4",
    ),
    Null(
        "uniform_with_sink", "layer",
        "mask, row sums, weight on token 0 in every row, head maps",
        "the weights on all other keys: spread evenly",
        kernels.uniform_with_sink,
        deterministic=True,
        section="Theory §4",
    ),
    Null(
        "uniform", "layer",
        "mask, row sums, head maps",
        "the weights: spread evenly",
        kernels.uniform,
        deterministic=True,
        section="Theory §4",
    ),
    Null(
        "shuffled_layers", "layers",
        "every layer as it is",
        "the order of the layers",
        layers.shuffled_layers,
        section="Theory §4",
    ),
)  # fmt: skip

ALL: Mapping[str, Null] = MappingProxyType({null.name: null for null in _ALL})

__all__ = ["ALL", "Comparison", "Null", "compare", "gaussian"]
