"""Random head maps in place of a layer's own; its kernel and its inputs are kept. Theory §3."""

import torch

from conwalk.connection.random_maps import gaussian_maps, haar_maps, rotated_maps
from conwalk.metrics import LayerData
from conwalk.nulls.replace import with_transports


def gaussian_factors(data: LayerData, generator: torch.Generator) -> LayerData:
    """Independent Gaussian factors with the norms of the layer's head maps. Theory §3."""
    return with_transports(data, gaussian_maps(data.walk.transports, generator))


def haar_factors(data: LayerData, generator: torch.Generator) -> LayerData:
    """Scaled partial isometries with the norms of the layer's head maps: ρ = 1. Theory §3."""
    return with_transports(data, haar_maps(data.walk.transports, generator))


def shuffled_gauge(data: LayerData, generator: torch.Generator) -> LayerData:
    """The layer's factors with a random rotation between them. Theory §3."""
    return with_transports(data, rotated_maps(data.walk.transports, generator))
