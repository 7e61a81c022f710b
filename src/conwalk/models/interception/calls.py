"""One application of attention weights to values, as a handler sees it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Backend = Literal["interface", "function"]


@dataclass(frozen=True)
class Attended:
    """What an attention call produced.

    Attributes:
        mixed: attention-weighted values, ``(batch, query, head, k)``.
        attention: weights as applied, ``(batch, head, query, key)``.
    """

    mixed: Tensor
    attention: Tensor


def _no_scores() -> Tensor | None:
    return None


@dataclass(frozen=True)
class AttentionCall:
    """One application of attention weights to values, before it is carried out.

    Attributes:
        backend: how it was noticed, the attention interface or a torch function.
        n_heads: query heads.
        n_queries: query positions.
        value: values as read, ``(batch, value head, key, k)``.
        run: carries the call out as the model would have.
        run_rows: carries it out for the queries ``first`` to ``last`` (excluded) only; None where
            a call cannot be split.
        scores: gives the scaled scores before mask and softmax, ``(batch, head, query, key)``, or
            None where they cannot be had; to be called after ``run``.
        scaling: the factor on query times key, where the call names it.
        softcap: the bound of the scores' tanh, where there is one.
        reach: the sliding window in tokens, where the call names one.
    """

    backend: Backend
    n_heads: int
    n_queries: int
    value: Tensor
    run: Callable[[], Attended]
    run_rows: Callable[[int, int], Attended] | None = None
    scores: Callable[[], Tensor | None] = _no_scores
    scaling: float | None = None
    softcap: float | None = None
    reach: int | None = None


Handler = Callable[[AttentionCall], Tensor]
"""Takes a call, returns the mixed values ``(batch, query, head, k)`` the model goes on with."""
