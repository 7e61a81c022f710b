"""Attention noticed where a model asks transformers' attention interface for a function.

The interface is wrapped rather than extended by a name of our own: masks, sinks, softcaps
and windows then stay exactly those of the function the family would have used.
"""

import functools
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch import Tensor, nn
from transformers.modeling_utils import AttentionInterface

from conwalk.errors import CaptureError
from conwalk.models.interception.calls import Attended, AttentionCall, Handler

AttentionFunction = Callable[..., tuple[Tensor, Tensor | None]]


def _weights(attention: Tensor | None, module: nn.Module) -> Tensor:
    if attention is None:
        raise CaptureError(
            f"{type(module).__name__} gave no attention weights: the model does not run in eager "
            "mode; load it with attn_implementation='eager'"
        )
    return attention


@contextmanager
def watch_interface(
    handler: Handler, quiet: Callable[[], AbstractContextManager[None]] = nullcontext
) -> Generator[None]:
    """Send every call through the attention interface to ``handler`` while the context lasts.

    Args:
        handler: receives each :class:`AttentionCall`.
        quiet: a context in which other watchers look away while the family's own function runs.

    Raises:
        CaptureError: from a call whose function keeps its weights to itself.
    """
    found = AttentionInterface.get_interface

    def watched(
        function: AttentionFunction,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        applied: list[Tensor] = []

        def run() -> Attended:
            with quiet():
                mixed, attention = function(module, query, key, value, *args, **kwargs)
            applied.append(_weights(attention, module))
            return Attended(mixed, applied[0])

        call = AttentionCall("interface", query.shape[1], query.shape[2], value, run)
        mixed = handler(call)
        return mixed, applied[0] if applied else None

    def get_interface(self: AttentionInterface, *args: Any, **kwargs: Any) -> AttentionFunction:
        return functools.partial(watched, found(self, *args, **kwargs))

    AttentionInterface.get_interface = get_interface  # type: ignore[method-assign]
    try:
        yield
    finally:
        AttentionInterface.get_interface = found  # type: ignore[method-assign]
