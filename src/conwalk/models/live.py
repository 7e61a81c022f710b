"""Models that the user has loaded already."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from conwalk.errors import SourceError
from conwalk.models import fingerprint
from conwalk.models.model import Model
from conwalk.models.unwrap import Unwrapped, unwrap


def wrap(given: object, tokenizer: Any = None) -> Model | None:
    """Take a loaded network as it is: dtype, device, mode and configuration stay untouched.

    Args:
        given: any network with attention, or an object of another tool that holds one.
        tokenizer: its tokenizer, if texts are to be read; that of the tool by default.

    Returns:
        A model of kind ``"live"``, named after its class; None if there is no network in ``given``.

    Raises:
        SourceError: the network is of a kind that cannot be read, or not all there.
    """
    found = unwrap(given)
    if found is None:
        return None
    module = found.module
    for lack, reason in _LACKS:
        if lack(module):
            raise SourceError(f"{type(module).__name__}: {reason}")
    return _model(found, found.tokenizer if tokenizer is None else tokenizer)


def _model(found: Unwrapped, tokenizer: Any) -> Model:
    module = found.module
    lack = () if tokenizer is not None else ("no tokenizer was given: pass token ids, not texts",)
    return Model(
        module=module,
        tokenizer=tokenizer,
        source=type(module).__name__,
        kind="live",
        quantized=bool(getattr(module, "is_quantized", False)),
        notes=(*found.notes, *lack),
        hash_weights=lambda: fingerprint.of_module(module),
    )


def _is_script(module: nn.Module) -> bool:
    return any(isinstance(m, torch.jit.ScriptModule) for m in module.modules())


def _is_lazy(module: nn.Module) -> bool:
    return any(is_lazy(p) for p in (*module.parameters(), *module.buffers()))


def _is_empty(module: nn.Module) -> bool:
    # what accelerate keeps elsewhere until it is needed lies on the meta device too
    offloaded = any(hasattr(m, "_hf_hook") for m in module.modules())
    return not offloaded and any(p.is_meta for p in module.parameters())


def _is_spread(module: nn.Module) -> bool:
    return any(type(p).__name__ == "DTensor" for p in module.parameters()) or any(
        "FullyShardedDataParallel" in (c.__name__ for c in type(m).__mro__)
        for m in module.modules()
    )


_LACKS: tuple[tuple[Callable[[nn.Module], bool], str], ...] = (
    (_is_script, "it is TorchScript, whose operations cannot be watched; pass the module it is of"),
    (_is_lazy, "some of its weights have no shape yet; run it once on real inputs first"),
    (_is_spread, "its weights are spread over processes; gather them and pass the plain module"),
    (
        _is_empty,
        "some of its weights are not loaded (meta device); load them before",
    ),
)
