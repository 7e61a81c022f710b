"""How far each layer is from a random-walk connection Laplacian, in words."""

import warnings
from collections.abc import Mapping

import numpy as np
import torch

from conwalk import dims
from conwalk.metrics.conditions import verdict
from conwalk.results import Variable

Variables = Mapping[str, Variable]


def verdicts(variables: Variables, n_layers: int, dtype: torch.dtype) -> list[str]:
    """One line a layer, from the means of its numbers over prompts and heads. Theory §2."""
    means = {name: _by_layer(v) for name, v in variables.items() if _is_of_layers(v)}
    return [
        verdict({name: float(values[place]) for name, values in means.items()}, dtype)
        for place in range(n_layers)
    ]


def _is_of_layers(variable: Variable) -> bool:
    """Whether its numbers belong to layers, and to their heads at most."""
    return {dims.LAYER} <= set(variable.dims) <= {dims.PROMPT, dims.LAYER, dims.HEAD}


def _by_layer(variable: Variable) -> np.ndarray:
    axes = tuple(i for i, d in enumerate(variable.dims) if d != dims.LAYER)
    with warnings.catch_warnings():
        # a layer without a number has no mean: NaN says so
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmean(variable.values, axis=axes)
