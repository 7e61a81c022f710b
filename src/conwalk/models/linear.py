"""The two linear layers that transformers are made of, read alike."""

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

Linear = nn.Linear | Conv1D


def linears(module: nn.Module) -> dict[str, Linear]:
    """All linear layers of a model by their path."""
    return {n: m for n, m in module.named_modules() if isinstance(m, nn.Linear | Conv1D)}


def out_width(linear: Linear) -> int:
    """Number of output channels."""
    return linear.nf if isinstance(linear, Conv1D) else linear.out_features


def bias(linear: Linear) -> Tensor | None:
    """The bias, ``(out,)``, detached, or None."""
    found: Tensor | None = getattr(linear, "bias", None)
    return None if found is None else found.detach()


def matrix(linear: Linear) -> Tensor:
    """The weight as ``(in, out)``, so that ``y = x @ matrix + bias``."""
    return linear.weight if isinstance(linear, Conv1D) else linear.weight.t()
