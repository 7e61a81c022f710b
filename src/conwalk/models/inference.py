"""Run somebody's model for a moment, and hand it back exactly as it was."""

import inspect
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

_IMPLEMENTATION = "_attn_implementation_internal"


def dtype_of(module: nn.Module) -> torch.dtype:
    """The dtype a model runs in: that of its first floating parameter; float32 without one."""
    return next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)


def _configs(module: nn.Module) -> list[Any]:
    """Every configuration object that says how attention is computed, nested ones included."""
    found: dict[int, Any] = {}
    waiting = [m.config for m in module.modules() if hasattr(m, "config")]
    while waiting:
        config = waiting.pop()
        if config is None or id(config) in found or not hasattr(config, _IMPLEMENTATION):
            continue
        found[id(config)] = config
        waiting += [getattr(config, name, None) for name in getattr(config, "sub_configs", ())]
    return list(found.values())


@contextmanager
def eager(module: nn.Module) -> Generator[None]:
    """Evaluation mode, eager attention and no gradients while the context lasts.

    Mode of every submodule and every configuration are as found afterwards, also after an
    exception. Works for models loaded with any attention implementation.
    """
    training = {m: m.training for m in module.modules()}
    implementations = [(c, getattr(c, _IMPLEMENTATION)) for c in _configs(module)]
    try:
        for config, _ in implementations:
            setattr(config, _IMPLEMENTATION, "eager")
        for m in training:
            m.training = False
        with torch.no_grad():
            yield
    finally:
        for m, was in training.items():
            m.training = was
        for config, was in implementations:
            setattr(config, _IMPLEMENTATION, was)


def forward(module: nn.Module, inputs: dict[str, Any], *, logits: bool = True) -> Any:
    """One pass without a key-value cache, which would change what a layer's keys are.

    Args:
        module: the model.
        inputs: keyword arguments of its forward.
        logits: whether anybody reads the logits; if not, a model that can make those of the last
            token only is asked for that, which spares a language model its largest product.
    """
    known = inspect.signature(module.forward).parameters
    extra: dict[str, Any] = {}
    if "use_cache" in known:
        extra["use_cache"] = False
    if not logits and "logits_to_keep" in known:
        extra["logits_to_keep"] = 1
    return module(**{**extra, **inputs})
