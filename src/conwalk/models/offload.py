"""Weights that a module does not hold itself: on disk, in CPU memory, in checkpoint shards.

accelerate keeps the weights of an offloaded module behind its hook and leaves meta tensors in
their place; a module built from its configuration alone can be given a store in the same way.
"""

import copy
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from conwalk.errors import CaptureError

_STORE = "conwalk_store"
_WRAPPED = ("forward", "_old_forward", "_hf_hook")


@runtime_checkable
class Store(Protocol):
    """Gives the parameters of one module by their names in it, each time they are asked for."""

    def __getitem__(self, name: str) -> Tensor:
        """The values of a parameter."""
        ...


def keep_elsewhere(module: nn.Module, store: Store) -> None:
    """Say where the parameters of a module on the meta device are.

    Args:
        module: a module with parameters of its own.
        store: gives a parameter by its name in the module.
    """
    module.__dict__[_STORE] = store


def is_elsewhere(module: nn.Module) -> bool:
    """Whether any parameter of the module itself is not in its place."""
    return any(p.is_meta for p in module.parameters(recurse=False))


def is_empty(module: nn.Module) -> bool:
    """Whether a model has parameters without values, so that it can only be run on labels."""
    return any(_store(m) is None and is_elsewhere(m) for m in module.modules())


def value(module: nn.Module, name: str) -> Tensor:
    """A parameter of a module, from wherever it is kept; detached.

    Args:
        module: the module itself, not a parent of it.
        name: of a parameter that the module has.

    Returns:
        The values in the dtype they are kept in.

    Raises:
        CaptureError: the parameter is on the meta device and nothing says where its values are.
    """
    own: Tensor = getattr(module, name)
    if not own.is_meta:
        return own.detach()
    store = _store(module)
    found = None if store is None else store[name]
    if found is None:
        raise CaptureError(
            f"the parameter {name} of a {type(module).__name__} is on the meta device and has no "
            "values: load the weights, or dispatch the model with accelerate"
        )
    return found.detach()


def _store(module: nn.Module) -> Store | None:
    own = module.__dict__.get(_STORE)
    return own if own is not None else _weights_map(getattr(module, "_hf_hook", None))


def _weights_map(hook: Any) -> Store | None:
    """The store of accelerate's hook, or of the one in a sequence of hooks that has one."""
    found = getattr(hook, "weights_map", None)
    if found is not None:
        return found
    several = (_weights_map(inner) for inner in getattr(hook, "hooks", ()))
    return next((store for store in several if store is not None), None)


def device(module: nn.Module) -> torch.device:
    """The device a module computes on: that of its first parameter that is somewhere.

    Of a module that is offloaded as a whole, the one accelerate brings the weights to.
    """
    for parameter in module.parameters():
        if not parameter.is_meta:
            return parameter.device
    for inner in module.modules():
        wanted = getattr(getattr(inner, "_hf_hook", None), "execution_device", None)
        if wanted is not None:
            return torch.device("cuda", wanted) if isinstance(wanted, int) else torch.device(wanted)
    return torch.device("cpu")


def present(module: nn.Module) -> nn.Module:
    """A module without children that holds its values.

    Returns:
        The module itself, or a copy with the values in place and without accelerate's hook.
    """
    if not is_elsewhere(module):
        return module
    twin = copy.copy(module)
    twin.__dict__ = {k: v for k, v in module.__dict__.items() if k not in (*_WRAPPED, _STORE)}
    twin.__dict__["_parameters"] = dict(module.__dict__["_parameters"])
    for name, _ in module.named_parameters(recurse=False):
        setattr(twin, name, nn.Parameter(value(module, name), requires_grad=False))
    return twin
