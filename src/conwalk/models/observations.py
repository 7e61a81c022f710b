"""What a labelled pass shows, and the labels that it sends."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from conwalk.models.interception import Backend
from conwalk.models.linear import Linear

Labels = Literal["global", "local", "random"]


@dataclass
class Arrival:
    """What a linear of the right width read after an attention call.

    Attributes:
        linear: the linear.
        labels: what came in at the first position, ``(head · k,)``.
        places: its axes but the last.
    """

    linear: Linear
    labels: Tensor
    places: tuple[int, ...]


@dataclass
class Observation:
    """What one attention call showed during a tagged pass.

    Attributes:
        backend: how the call was noticed.
        path: innermost module that was running.
        n_heads: query heads.
        lengths: numbers of queries and of keys.
        value: labels seen in the values of the first key, ``(value head, k)``.
        steady: whether the values of the last key show the same labels.
        value_linears: how many linear calls came before.
        base: the first label that the call put out.
        groups: prompts, or windows of the one prompt.
        reach: the sliding window that the call names.
        arrivals: the linears of matching width that came next.
    """

    backend: Backend
    path: str
    n_heads: int
    lengths: tuple[int, int]
    value: Tensor
    steady: bool
    value_linears: int
    base: int
    groups: int
    reach: int | None
    arrivals: list[Arrival] = field(default_factory=list)


@dataclass(frozen=True)
class LinearCall:
    """One use of a linear layer.

    Attributes:
        linear: the layer.
        base: its first label.
        labels: what it put out.
        places: the axes it kept.
        read: what it was given at the last position.
    """

    linear: Linear
    base: int
    labels: Tensor
    places: tuple[int, ...]
    read: Tensor


@dataclass
class TaggedPass:
    """All that one tagged forward pass showed, in order.

    Attributes:
        observations: attention calls.
        calls: uses of linear layers.
        returned: the first tensor that the model gave.
        softmaxes: how many softmaxes there were that could be attention, outside the interface.
        rebuilt: whether the model put other parts into itself during the pass.
    """

    observations: list[Observation] = field(default_factory=list)
    calls: list[LinearCall] = field(default_factory=list)
    returned: Tensor | None = None
    softmaxes: int = 0
    rebuilt: bool = False


def linear_labels(kind: Labels, scale: float, call: int, base: int, width: int) -> Tensor:
    """The labels that one use of a linear layer puts out, ``(width,)``.

    Args:
        kind: unique over the model, unique within each linear, or random.
        scale: factor on all of them.
        call: which use of a linear in the pass.
        base: the first label that is free.
        width: channels.
    """
    if kind == "random":
        seeded = torch.Generator().manual_seed(7919 * call + 13)
        return torch.randn(width, generator=seeded, dtype=torch.float64)
    first = 1 if kind == "local" else base
    return scale * torch.arange(first, first + width, dtype=torch.float64)


def pattern_labels(number: int, call: int, n_heads: int, width: int) -> Tensor:
    """Numbers ``(head, k)`` whose mean over every head is 0; all 0 for number 0.

    Args:
        number: of the pattern.
        call: which attention call of the pass, from 1.
        n_heads: heads.
        width: k.
    """
    seeded = torch.Generator().manual_seed(104729 * number + 7907 * call)
    size = 0.5 + torch.rand(n_heads, width, generator=seeded, dtype=torch.float64)
    turned = torch.arange(n_heads * width).view(n_heads, width) % 2 * 2 - 1
    order = torch.rand(n_heads, width, generator=seeded).argsort(-1)
    drawn = (size * turned).gather(-1, order)
    return (drawn - drawn.mean(-1, keepdim=True)) * min(number, 1)
