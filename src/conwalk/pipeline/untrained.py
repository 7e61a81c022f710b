"""The same analysis of the model before it was trained, beside that of the model."""

from typing import Any

import torch
import xarray as xr

from conwalk import nulls
from conwalk.pipeline.analysis import analyze
from conwalk.pipeline.source import Given, Prompts, model_of

SUFFIX = "_fresh"


def analyze_beside_fresh(
    model: Given, prompts: Prompts, *, seed: int = 0, **asked: Any
) -> xr.Dataset:
    """Analyze a model, and the same architecture with fresh weights on the same texts.

    Args:
        model: a model of transformers, or anything :func:`conwalk.load` takes.
        prompts: texts, token id sequences, or ready inputs.
        seed: of everything random, the fresh weights included.
        **asked: as for :func:`conwalk.analyze`.

    Returns:
        The dataset of the model; every variable has one beside it whose name ends in ``_fresh``.
        Theory §3, §4: the architecture's own initialisation as a null.

    Raises:
        InputError: see :func:`conwalk.analyze`; also a model without a configuration.
    """
    model = model_of(model)
    fresh = nulls.ALL["fresh_weights"].draw(model, torch.Generator().manual_seed(seed))
    found = analyze(model, prompts, seed=seed, **asked)
    untrained = analyze(fresh, prompts, seed=seed, **asked)
    beside = {f"{name}{SUFFIX}": v.variable for name, v in untrained.data_vars.items()}
    return found.assign(beside)
