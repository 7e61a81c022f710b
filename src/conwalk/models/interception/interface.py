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
from conwalk.models.interception.scores import SoftmaxInput, SoftmaxReached

AttentionFunction = Callable[..., tuple[Tensor, Tensor | None]]
Quiet = Callable[[], AbstractContextManager[None]]

_ARGUMENTS = ("module", "query", "key", "value", "attention_mask")
_TABLE_AXES = 4  # (batch, head, query, key)


def _weights(attention: Tensor | None, module: nn.Module) -> Tensor:
    if attention is None:
        raise CaptureError(
            f"{type(module).__name__} gave no attention weights: the model does not run in eager "
            "mode; load it with attn_implementation='eager'"
        )
    return attention


class _Asked:
    """What a model asked of its attention function, to be carried out whole or in part."""

    def __init__(
        self,
        function: AttentionFunction,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        quiet: Quiet,
    ) -> None:
        self._function = function
        self._named = dict(kwargs)
        given = [self._named.pop(n) for n in _ARGUMENTS[len(args) :] if n in self._named]
        self._module, self._query, self._key, self._value, *rest = (*args, *given)
        self._mask = rest.pop(0) if rest else None
        self._rest = rest
        self._quiet = quiet
        self.attention: Tensor | None = None

    def call(self) -> AttentionCall:
        return AttentionCall(
            backend="interface",
            n_heads=self._query.shape[1],
            n_queries=self._query.shape[2],
            value=self._value,
            run=self._run,
            run_rows=self._run_rows,
            scores=self._scores,
            scaling=_number(self._named.get("scaling")),
            softcap=_number(self._named.get("softcap")),
            reach=self._named.get("sliding_window"),
        )

    def _apply(self, query: Tensor, mask: Any, named: dict[str, Any]) -> Attended:
        with self._quiet():
            mixed, attention = self._function(
                self._module, query, self._key, self._value, mask, *self._rest, **named
            )
        return Attended(mixed, _weights(attention, self._module))

    def _run(self) -> Attended:
        attended = self._apply(self._query, self._mask, self._named)
        self.attention = attended.attention
        return attended

    def _run_rows(self, first: int, last: int) -> Attended:
        n = self._query.shape[2]
        named = {k: _rows_of(v, n, first, last) for k, v in self._named.items()}
        mask = _rows_of(self._mask, n, first, last)
        return self._apply(self._query[:, :, first:last], mask, named)

    def _scores(self) -> Tensor | None:
        with self._quiet(), SoftmaxInput() as seen:
            try:
                self._apply(self._query, None, self._named)
            except SoftmaxReached:
                return seen.scores
        return None


def _number(named: Any) -> float | None:
    """A scaling or softcap as a number; families write whole ones as integers."""
    return None if named is None else float(named)


def _rows_of(argument: Any, n: int, first: int, last: int) -> Any:
    """The query rows of a mask or bias; anything else as it is."""
    is_table = isinstance(argument, Tensor) and argument.dim() == _TABLE_AXES
    return argument[:, :, first:last] if is_table and argument.shape[2] == n else argument


@contextmanager
def watch_interface(handler: Handler, quiet: Quiet = nullcontext) -> Generator[None]:
    """Send every call through the attention interface to ``handler`` while the context lasts.

    Args:
        handler: receives each :class:`AttentionCall`.
        quiet: a context in which other watchers look away while the family's own function runs.

    Raises:
        CaptureError: from a call whose function keeps its weights to itself.
    """
    found = AttentionInterface.get_interface

    def watched(function: AttentionFunction, *args: Any, **kwargs: Any) -> Any:
        asked = _Asked(function, args, kwargs, quiet)
        mixed = handler(asked.call())
        return mixed, asked.attention

    def get_interface(self: AttentionInterface, *args: Any, **kwargs: Any) -> AttentionFunction:
        return functools.partial(watched, found(self, *args, **kwargs))

    AttentionInterface.get_interface = get_interface  # type: ignore[method-assign]
    try:
        yield
    finally:
        AttentionInterface.get_interface = found  # type: ignore[method-assign]
