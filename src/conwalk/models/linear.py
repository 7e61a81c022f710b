"""What makes linear maps in transformers, read alike, wherever the weights are.

Two kinds of modules, modules that are affine maps as a whole, and products with parameters that
a model carries out itself.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from conwalk.models import offload
from conwalk.models.affine import AffineModule, is_plain
from conwalk.models.interception import ParameterProduct

Module = nn.Linear | Conv1D
Linear = Module | AffineModule | ParameterProduct


def linears(module: nn.Module) -> dict[str, Module]:
    """All linear modules of a model by their path, but for those that do something of their own."""
    return {
        path: m
        for path, m in module.named_modules()
        if isinstance(m, nn.Linear | Conv1D) and is_plain(m)
    }


def module_of(linear: Linear) -> nn.Module | None:
    """The module whose calls are the map; None for products."""
    if isinstance(linear, AffineModule):
        return linear.module
    return linear if isinstance(linear, nn.Module) else None


def in_width(linear: Linear) -> int:
    """Number of input channels."""
    if isinstance(linear, AffineModule):
        return linear.width_in
    if isinstance(linear, ParameterProduct):
        return linear.matrix().shape[0]
    return linear.nx if isinstance(linear, Conv1D) else linear.in_features


def out_width(linear: Linear) -> int:
    """Number of output channels."""
    if isinstance(linear, AffineModule):
        return linear.width_out
    if isinstance(linear, ParameterProduct):
        return linear.matrix().shape[1]
    return linear.nf if isinstance(linear, Conv1D) else linear.out_features


def dtype_of(linear: Linear) -> torch.dtype:
    """The dtype the layer runs in; nothing is computed to find it."""
    if isinstance(linear, AffineModule):
        return linear.dtype
    if isinstance(linear, ParameterProduct):
        return linear.weight.dtype
    return next(p.dtype for p in linear.parameters())


@contextmanager
def _still(module: nn.Module) -> Generator[None]:
    """Weights that are computed each time may be computed otherwise in training: not here."""
    training = [m for m in module.modules() if m.training]
    for m in training:
        m.training = False
    try:
        yield
    finally:
        for m in training:
            m.training = True


def bias(linear: Linear) -> Tensor | None:
    """The bias, ``(out,)``, detached, or None; in the dtype the layer runs in."""
    if isinstance(linear, AffineModule | ParameterProduct):
        return linear.bias
    if getattr(linear, "bias", None) is None:
        return None
    with _still(linear):
        return offload.value(linear, "bias").to(dtype_of(linear))


def matrix(linear: Linear) -> Tensor:
    """The weight as ``(in, out)``, so that ``y = x @ matrix + bias``, in the dtype it is kept in.

    Detached.
    """
    if isinstance(linear, AffineModule | ParameterProduct):
        return linear.matrix()
    with _still(linear):
        weight = offload.value(linear, "weight")
    return weight if isinstance(linear, Conv1D) else weight.t()


def is_elsewhere(linear: Linear) -> bool:
    """Whether the weights are not in the module itself."""
    return isinstance(linear, nn.Module) and offload.is_elsewhere(linear)


def label(linear: Linear, paths: Mapping[nn.Module, str]) -> str:
    """How a map is called, given the paths of the modules of a model."""
    if not isinstance(linear, ParameterProduct):
        return paths[linear.module if isinstance(linear, AffineModule) else linear]
    owner = linear.place.owner()
    path = "" if owner is None else paths.get(owner, "")
    return f"{path}.{linear.place.name}".removeprefix(".")
