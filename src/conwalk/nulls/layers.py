"""Layers in random order: the null of everything that compares a layer with the next. Theory §4."""

from collections.abc import Mapping

import torch
from torch import Tensor


def shuffled_layers(arrays: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """Permute arrays along their first axis, the layer, all of them alike.

    Args:
        arrays: what a depth metric kept, each stacked along the layers.
        generator: on the CPU.

    Returns:
        The same arrays in one random order of the layers. Theory §4.
    """
    count = len(next(iter(arrays.values())))
    order = torch.randperm(count, generator=generator)
    return {name: values[order.to(values.device)] for name, values in arrays.items()}
