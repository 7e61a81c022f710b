"""The two linear layers that transformers are made of, read alike, wherever their weights are."""

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from conwalk.models import offload

Linear = nn.Linear | Conv1D


def linears(module: nn.Module) -> dict[str, Linear]:
    """All linear layers of a model by their path."""
    return {n: m for n, m in module.named_modules() if isinstance(m, nn.Linear | Conv1D)}


def in_width(linear: Linear) -> int:
    """Number of input channels."""
    return linear.nx if isinstance(linear, Conv1D) else linear.in_features


def out_width(linear: Linear) -> int:
    """Number of output channels."""
    return linear.nf if isinstance(linear, Conv1D) else linear.out_features


def bias(linear: Linear) -> Tensor | None:
    """The bias, ``(out,)``, detached, or None; in the dtype the layer runs in."""
    if getattr(linear, "bias", None) is None:
        return None
    return offload.value(linear, "bias").to(linear.weight.dtype)


def matrix(linear: Linear) -> Tensor:
    """The weight as ``(in, out)``, so that ``y = x @ matrix + bias``, in the dtype it is kept in.

    Detached.
    """
    weight = offload.value(linear, "weight")
    return weight if isinstance(linear, Conv1D) else weight.t()
