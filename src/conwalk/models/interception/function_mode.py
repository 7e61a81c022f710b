"""Attention noticed where a softmax, however reshaped on the way, is multiplied with values.

For model families and hand-written modules that do not ask the attention interface.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from conwalk.models.interception.calls import Attended, AttentionCall, Handler
from conwalk.models.interception.composite import OPENED
from conwalk.models.interception.looking import LookingMode
from conwalk.models.interception.products import (
    Product,
    einsum_product,
    fused_attention,
    fused_scores,
    matrix_product,
    turned_product,
)
from conwalk.models.interception.scores import SOFTMAX, Trail

_MATMUL = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm}
_EINSUM = {torch.einsum, torch.functional.einsum}
_FUSED = {functional.scaled_dot_product_attention}
_FUSED_SIGNATURE = (
    "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa",
)  # fmt: skip
_LEAST_AXES = 3


def _storage(t: Tensor) -> int:
    return t.untyped_storage().data_ptr()


def _operands(func: Any, args: Sequence[Any]) -> tuple[str | None, tuple[Any, ...]]:
    if func not in _EINSUM:
        return None, tuple(args)
    operands = args[1:]
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = operands[0]
    return args[0], tuple(operands)


def _unmasked(named: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in named.items() if k in ("scale", "enable_gqa")}


def _in_order(equation: str, first: bool) -> str:
    """The equation with the attention's letters first."""
    inputs, _, output = equation.replace(" ", "").partition("->")
    left, _, right = inputs.partition(",")
    return equation if first else f"{right},{left}->{output}"


class AttentionFunctionMode(LookingMode):
    """Follows softmax results until they meet their values, and hands those calls over."""

    def __init__(
        self,
        handler: Handler,
        batch: int,
        *,
        scores: bool = False,
        on_softmax: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._on_softmax = on_softmax
        self._handler = handler
        self._batch = batch
        self._weights: dict[int, Tensor] = {}
        self._trail = Trail() if scores else None
        self._masked: Tensor | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Carry out ``func``, watching softmaxes and what becomes of them."""
        kwargs = kwargs or {}
        if not self._looking:
            return func(*args, **kwargs)
        if func in OPENED:
            with self:
                return OPENED[func](*args, **kwargs)
        if func in _FUSED:
            return self._fused(func, args, kwargs)
        product = self._product(func, args) if self._weights else None
        if product is not None:
            self._weights.clear()
            return self._hand_over(product, lambda: func(*args, **kwargs))
        out = func(*args, **kwargs)
        self._follow(func, args, out)
        return out

    def _product(self, func: Any, args: Sequence[Any]) -> Product | None:
        if func not in _MATMUL and func not in _EINSUM:
            return None
        equation, operands = _operands(func, args)
        if len(operands) != 2 or not all(isinstance(t, Tensor) for t in operands):
            return None
        sides = [side for side in (0, 1) if self._is_attention(operands[side])]
        if not sides:
            return None
        first = sides[0] == 0
        attention, value = operands if first else reversed(operands)
        if equation is not None:
            return einsum_product(_in_order(equation, first), attention, value)
        product = matrix_product if first else turned_product
        return product(*operands, self._batch)

    def _is_attention(self, t: Tensor) -> bool:
        return _storage(t) in self._weights and t.dim() >= _LEAST_AXES

    def _hand_over(self, product: Product, run: Callable[[], Tensor]) -> Tensor:
        def carried_out() -> Attended:
            return Attended(product.mixed(run()), product.attention)

        _, n_heads, n_queries, _ = product.attention.shape
        call = AttentionCall(
            backend="function",
            n_heads=n_heads,
            n_queries=n_queries,
            value=product.value,
            run=carried_out,
            scores=lambda: self._scores(product.attention),
        )
        with self.quiet():
            return product.native(self._handler(call))

    def _scores(self, attention: Tensor) -> Tensor | None:
        masked, trail = self._masked, self._trail
        if masked is None or trail is None or masked.numel() != attention.numel():
            return None
        found = trail.before_mask(masked)
        trail.clear()
        return None if found is None else found.reshape(attention.shape)

    def _fused(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
        given = dict(zip(_FUSED_SIGNATURE, args, strict=False)) | dict(kwargs)
        if given["query"].dim() < _LEAST_AXES:
            return func(*args, **kwargs)
        wanted = inspect.signature(fused_attention).parameters
        self._on_softmax()
        with self.quiet():
            named = {k: v for k, v in given.items() if k in wanted}
            product = matrix_product(fused_attention(**named), given["value"], self._batch)
            if self._trail is not None:
                self._masked = fused_scores(given["query"], given["key"], **_unmasked(named))
        return self._hand_over(product, lambda: func(*args, **kwargs))

    def _follow(self, func: Any, args: Sequence[Any], out: Any) -> None:
        """A result is attention if it is a softmax, or the same numbers in another shape."""
        if not isinstance(out, Tensor) or out.dim() < _LEAST_AXES or not out.is_floating_point():
            return
        if func in SOFTMAX:
            self._on_softmax()
            self._weights[_storage(out)] = out
            self._masked = args[0] if args else None
            return
        if self._trail is not None and not self._weights:
            self._trail.note(out)
        given = (t for t in args if isinstance(t, Tensor) and t.is_floating_point())
        sources = (t for t in given if t.numel() == out.numel())
        if self._weights and any(_storage(t) in self._weights for t in sources):
            self._weights[_storage(out)] = out
