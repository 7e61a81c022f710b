"""Why a softmax never meets values whole: where its pieces go, seen in one plain pass.

Attention in blocks, with landmarks or with hashed buckets computes softmaxes, but no single one
over all keys that is multiplied with all values once. What is done with them says which it is.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from conwalk.models.interception.scores import SOFTMAX

LANDMARKS = (
    "attention is approximated by landmarks: softmax matrices are multiplied with one another "
    "before they meet the values"
)
BLOCKS = (
    "attention is computed in blocks: pieces of its softmax meet pieces of the values, never the "
    "whole over all keys"
)
PIECEWISE = (
    "attention is normalised in pieces, by exp and logsumexp: there is no softmax over all keys"
)

_PRODUCTS = {
    torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm,
    torch.einsum, torch.functional.einsum,
}  # fmt: skip
_LOGSUMEXP = {torch.logsumexp, Tensor.logsumexp}
_EXP = {torch.exp, Tensor.exp}
_LEAST_AXES = 3
_ATTENTION_AXES = 4


def _storage(t: Tensor) -> int:
    return t.untyped_storage().data_ptr()


def _tensors(args: Sequence[Any]) -> list[Tensor]:
    nested = (a if isinstance(a, list | tuple) else (a,) for a in args)
    return [t for part in nested for t in part if isinstance(t, Tensor)]


class Pieces(TorchFunctionMode):
    """Follows softmax results wherever they go and keeps, for each place, what became of them.

    Args:
        where: gives the innermost module that is running.
    """

    def __init__(self, where: Callable[[], str]) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._where = where
        self._sizes: dict[int, int] = {}
        self._kept: list[Tensor] = []
        self._logsumexp = False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Carry out ``func`` and note what it did with a softmax."""
        given = [t for t in _tensors(args) if t.is_floating_point()]
        soft = [t for t in given if _storage(t) in self._sizes]
        out = func(*args, **(kwargs or {}))
        if func in _PRODUCTS:
            self._multiplied(given, soft, out)
        elif func in _LOGSUMEXP:
            self._logsumexp = True
        elif func in _EXP and self._logsumexp:
            self.found.setdefault(self._where(), PIECEWISE)
            self._logsumexp = False
        elif isinstance(out, Tensor) and out.is_floating_point() and out.dim() >= _LEAST_AXES:
            if func in SOFTMAX:
                self._follow(out, out.numel())
            elif soft:
                self._follow(out, self._sizes[_storage(soft[0])])
        return out

    def _multiplied(self, given: list[Tensor], soft: list[Tensor], out: Any) -> None:
        if len(given) > 1 and len(soft) == len(given):
            self.found[self._where()] = LANDMARKS
            self._follow(out, out.numel())
        elif any(self._in_pieces(t) for t in soft):
            self.found.setdefault(self._where(), BLOCKS)

    def _in_pieces(self, t: Tensor) -> bool:
        return t.numel() != self._sizes[_storage(t)] or t.dim() > _ATTENTION_AXES

    def _follow(self, t: Tensor, size: int) -> None:
        """Remember a tensor made of a softmax of so many entries."""
        self._sizes[_storage(t)] = size
        self._kept.append(t)
