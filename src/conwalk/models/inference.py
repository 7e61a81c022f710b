"""Run somebody's model for a moment, and hand it back exactly as it was."""

import inspect
import random
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from conwalk.errors import CaptureError

_IMPLEMENTATION = "_attn_implementation_internal"
_CONTENTS = (
    "_buffers", "_modules", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
)  # fmt: skip
_MASK = "attention_mask"
_TOKENS = "input_ids"


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
def settled() -> Generator[None]:
    """No gradients, no autocast, and random numbers that do not count, while the context lasts.

    What is computed inside is computed in the dtype of what it is computed from. The states of
    torch's, numpy's and Python's random numbers are as found afterwards, on accelerators as well.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=_accelerators()))
        stack.callback(random.setstate, random.getstate())
        # a model may draw from numpy's one global generator, so that is what must be put back
        stack.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        for device in ("cpu", *_accelerator_type()):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        stack.enter_context(torch.no_grad())
        yield


def _accelerator_type() -> tuple[str, ...]:
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return () if found is None else (found.type,)


def _accelerators() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []


@contextmanager
def _attributes_kept(module: nn.Module) -> Generator[None]:
    """Every attribute, buffer and hook of every submodule, its mode included, as it was."""
    found = [
        (m, dict(vars(m)), {name: dict(vars(m)[name]) for name in _CONTENTS})
        for m in module.modules()
    ]
    try:
        yield
    finally:
        for m, attributes, contents in found:
            _put_back(vars(m), attributes)
            for name, kept in contents.items():
                _put_back(vars(m)[name], kept)


def _put_back(now: dict[Any, Any], before: Mapping[Any, Any]) -> None:
    for name in now.keys() - before.keys():
        del now[name]
    for name, value in before.items():
        if now.get(name, now) is not value:
            now[name] = value


@contextmanager
def _step_by_step() -> Generator[None]:
    """Torch's own attention layers do not run as one fused function."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


def _without_casts(module: nn.Module) -> None:
    """Run a model that accelerate made run under autocast as it was before."""
    own = vars(module).get("_original_forward")
    if own is not None:
        vars(module)["forward"] = own


@contextmanager
def eager(module: nn.Module) -> Generator[None]:
    """Evaluation mode, eager attention, nothing compiled and no gradients in this context.

    Mode, attributes and buffers of every submodule, every configuration and all random numbers are
    as found afterwards, also after an exception. Works for models loaded with any attention
    implementation, and for models that are compiled, whole or in parts: the code that was compiled
    runs as it was written, and stays compiled.
    """
    implementations = [(c, getattr(c, _IMPLEMENTATION)) for c in _configs(module)]
    with (
        settled(),
        _attributes_kept(module),
        torch.compiler.set_stance("force_eager"),
        _step_by_step(),
    ):
        try:
            for config, _ in implementations:
                setattr(config, _IMPLEMENTATION, "eager")
            for m in module.modules():
                m.training = False
            _without_casts(module)
            yield
        finally:
            for config, was in implementations:
                setattr(config, _IMPLEMENTATION, was)


def forward(module: nn.Module, inputs: dict[str, Any], *, logits: bool = True) -> Any:
    """One pass without a key-value cache, which would change what a layer's keys are.

    Args:
        module: the model.
        inputs: keyword arguments of its forward. A forward that takes no mask is given none, and
            one that calls its token ids something else gets them as its first argument.
        logits: whether anybody reads the logits; if not, a model that can make those of the last
            token only is asked for that, which spares a language model its largest product.

    Raises:
        CaptureError: the inputs are padded, and the model's forward takes no mask.
    """
    known = inspect.signature(module.forward).parameters
    extra: dict[str, Any] = {}
    if "use_cache" in known:
        extra["use_cache"] = False
    if not logits and "logits_to_keep" in known:
        extra["logits_to_keep"] = 1
    return module(**{**extra, **_as_known(module, inputs, known)})


def _as_known(
    module: nn.Module, inputs: dict[str, Any], known: Mapping[str, inspect.Parameter]
) -> dict[str, Any]:
    """The inputs under the names that a forward knows them by."""
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values()):
        return inputs
    named = dict(inputs)
    mask = named.get(_MASK)
    if isinstance(mask, Tensor) and _MASK not in known:
        if not bool(mask.all()):
            raise CaptureError(
                f"{type(module).__name__} takes no attention_mask, so texts of different lengths "
                "cannot share a pass; analyse them one at a time (--batch-size 1)"
            )
        del named[_MASK]
    first = next(iter(known), None)
    if _TOKENS in named and _TOKENS not in known and first is not None and first not in named:
        named[first] = named.pop(_TOKENS)
    return named


def first_tensor(returned: Any) -> Tensor | None:
    """Logits, or whatever tensor else a model gives first; None if it gives none."""
    if isinstance(returned, Tensor):
        return returned
    if isinstance(returned, Mapping):
        returned = list(returned.values())
    if not isinstance(returned, list | tuple):
        return None
    return next((t for r in returned if (t := first_tensor(r)) is not None), None)
