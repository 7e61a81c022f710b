"""The scores that a softmax was given, and what they were before the mask."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

SOFTMAX = frozenset({functional.softmax, torch.softmax, Tensor.softmax, torch.special.softmax})
_MASKED = -1e4
"""Masks push scores below this; no score of a finite model comes near it."""
_STEPS = 8
"""How many operations back from the softmax the unmasked scores may lie."""


class SoftmaxReached(Exception):
    """Raised in place of a softmax once its input has been seen."""


class SoftmaxInput(TorchFunctionMode):
    """Stops a computation at its first softmax and keeps what that was given."""

    scores: Tensor | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Carry out anything but a softmax."""
        kwargs = kwargs or {}
        if func in SOFTMAX:
            self.scores = args[0] if args else kwargs["input"]
            raise SoftmaxReached
        return func(*args, **kwargs)


class Trail:
    """The last few results before a softmax, to find the one the mask was applied to."""

    def __init__(self) -> None:
        self._recent: deque[Tensor] = deque(maxlen=_STEPS)

    def note(self, result: Any) -> None:
        """Remember a result."""
        if isinstance(result, Tensor) and result.is_floating_point() and result.dim() > 1:
            self._recent.append(result)

    def before_mask(self, masked: Tensor) -> Tensor | None:
        """The latest result without masked entries that agrees with ``masked`` everywhere else."""
        kept = masked > _MASKED
        for earlier in (masked, *reversed(self._recent)):
            if earlier.numel() != masked.numel():
                continue
            scores = earlier.reshape(masked.shape)
            if bool((scores > _MASKED).all()) and torch.equal(scores[kept], masked[kept]):
                return scores
        return None

    def clear(self) -> None:
        """Let go of everything."""
        self._recent.clear()
