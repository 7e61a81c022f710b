"""Gather the numbers of streamed layers into labelled arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from conwalk import dims
from conwalk.metrics import Metric, Quantity
from conwalk.results import Variable, empty


def attributes(quantity: Quantity) -> dict[str, Any]:
    """What a dataset says about a quantity."""
    return {
        "symbol": quantity.symbol,
        "unit": quantity.unit,
        "range": quantity.bounds,
        "long_name": quantity.meaning,
        "section": quantity.section,
        "better": quantity.better,
        "null": quantity.null,
        "comparable_across_length": int(quantity.comparable),
    }


class Collector:
    """Arrays that fill up layer by layer; what was never put stays NaN."""

    def __init__(self, n_prompts: int, n_layers: int, sizes: Mapping[str, int]) -> None:
        self._lead = {dims.PROMPT: n_prompts, dims.LAYER: n_layers}
        self._sizes = {**self._lead, **sizes}
        self.variables: dict[str, Variable] = {}

    def declare(self, name: str, axes: Sequence[str], attrs: Mapping[str, Any]) -> None:
        """Make room for a variable."""
        shape = tuple(self._sizes[a] for a in axes)
        self.variables[name] = Variable(tuple(axes), empty(shape), dict(attrs))

    def declare_metric(self, metric: Metric) -> None:
        """Make room for everything a metric answers with."""
        lead = (dims.LAYER,) if metric.of_weights else (dims.PROMPT, dims.LAYER)
        for quantity in metric.quantities:
            self.declare(quantity.name, (*lead, *quantity.dims), attributes(quantity))

    def put(self, name: str, place: tuple[int, ...], value: Tensor | float) -> None:
        """Put a value at ``(prompt, layer)`` or ``(layer,)``; shorter than the axis is padded."""
        numbers = value.detach().double().cpu().numpy() if isinstance(value, Tensor) else value
        self.put_numbers(name, place, np.asarray(numbers))

    def put_numbers(self, name: str, place: tuple[int, ...], numbers: NDArray[Any]) -> None:
        """The same for an array."""
        inner = tuple(slice(0, n) for n in numbers.shape)
        self.variables[name].values[(*place, *inner)] = numbers
