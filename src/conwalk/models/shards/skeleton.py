"""A model without its weights, complete enough for labels to be sent through it."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from conwalk import tolerance
from conwalk.models.linear import linears
from conwalk.models.quiet import quiet

_LARGEST_VECTOR = 2**20
_EXPERT_AXES = 3

Read = Callable[[str], Tensor | None]


def build(model_class: Any, config: Any, *, trust_remote_code: bool = False) -> nn.Module:
    """Build a model on the meta device, in float32: no memory for any weight.

    Args:
        model_class: the class, or one of transformers' auto classes.
        config: its configuration.
        trust_remote_code: whether code that comes with the model may run.
    """
    wanted: dict[str, Any] = {"dtype": torch.float32, "attn_implementation": "eager"}
    with quiet(), torch.device("meta"):
        if hasattr(model_class, "_from_config"):
            module = model_class._from_config(config, **wanted)
        else:
            module = model_class.from_config(config, trust_remote_code=trust_remote_code, **wanted)
    for inner in module.modules():
        if isinstance(inner, nn.Linear) and _is_plain(inner):
            # then it can be left without weights like any other
            inner.__class__ = nn.Linear
    return module.eval()


def _is_plain(linear: nn.Linear) -> bool:
    """Whether a linear layer with a forward of its own does what every linear layer does.

    Tried on small weights in place of its own, which have no values.
    """
    if type(linear) is nn.Linear:
        return False
    small = copy.copy(linear)
    drawn = torch.Generator().manual_seed(0)
    shapes = {"weight": (3, 4), "bias": (3,)}
    kept = {
        name: nn.Parameter(torch.randn(shapes[name], generator=drawn), requires_grad=False)
        for name, _ in linear.named_parameters(recurse=False)
        if name in shapes
    }
    small.__dict__["_parameters"] = {"bias": None, **kept}
    x = torch.randn(2, 4, generator=drawn)
    try:
        seen = small(x)
    except (TypeError, RuntimeError, ValueError, AttributeError):
        return False
    return isinstance(seen, Tensor) and _close(
        seen, functional.linear(x, kept["weight"], kept.get("bias"))
    )


def _close(one: Tensor, other: Tensor) -> bool:
    limit = tolerance.rounding(torch.float32)
    return one.shape == other.shape and bool(((one - other).abs() <= limit).all())


def fill(module: nn.Module, read: Read, constant: float) -> None:
    """Put something in place of every tensor that is on the meta device, but for linear layers.

    Labels take the place of what linear layers put out, so their weights stay where they are.
    Vectors (gains of norms, biases added to values) have their true values; every other tensor
    is one number, expanded: embeddings and convolutions only carry the labels' shape.

    Args:
        module: a model on the meta device.
        read: gives the values of a parameter by its name, or None if they are not known.
        constant: the number that stands for every entry of all other tensors.
    """
    labelled = set(linears(module).values())
    for path, inner in module.named_modules():
        if inner in labelled:
            continue
        for name, tensor in list(inner.named_parameters(recurse=False)):
            values = read(f"{path}.{name}" if path else name) if _is_vector(tensor) else None
            kept = _constant(tensor, constant) if values is None else values.to(tensor.dtype)
            setattr(inner, name, nn.Parameter(kept, requires_grad=False))
        for name, tensor in list(inner.named_buffers(recurse=False)):
            if tensor.is_meta:
                inner.register_buffer(name, torch.zeros(tensor.shape, dtype=tensor.dtype))
        if is_bank(inner):
            inner.__dict__["forward"] = _nothing


def is_bank(module: nn.Module) -> bool:
    """Whether a module holds a stack of matrices, one for each expert.

    What experts put out has the shape of what they read, and no attention lies behind them in
    their layer: a pass for labels does without them.
    """
    return any(
        p.dim() == _EXPERT_AXES and min(p.shape) > 1
        for p in module.parameters(recurse=False)
        if not isinstance(module, nn.Conv1d | nn.ConvTranspose1d)
    )


def _nothing(hidden: Tensor, *_: Any, **__: Any) -> Tensor:
    return torch.zeros_like(hidden)


def _is_vector(tensor: Tensor) -> bool:
    return math.prod(tensor.shape) == max(tensor.shape, default=1) <= _LARGEST_VECTOR


def _constant(tensor: Tensor, number: float) -> Tensor:
    return torch.tensor(number, dtype=tensor.dtype).expand(tensor.shape)
