"""Functions of torch that do a layer's whole attention, opened so that their steps are seen."""

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from torch.nn import functional


def _opened(function: Any) -> Callable[..., Any]:
    """The same code, which does not ask to be handed over whole while somebody watches."""
    names = {**function.__globals__, "has_torch_function": lambda _: False}
    code, defaults = function.__code__, function.__defaults__
    return FunctionType(code, names, function.__name__, defaults, function.__closure__)


OPENED: Mapping[Any, Callable[..., Any]] = {
    f: _opened(f) for f in (functional.multi_head_attention_forward,)
}
"""Functions to be carried out step by step, and what carries them out."""
