"""Find out how a model lays out its attention by sending labelled numbers through it.

During one tiny forward pass every linear layer puts out integer labels (which layer, which
channel) instead of its result, and every attention call puts out labels too. Labels that
arrive as values say which rows of which linear make which head; labels that arrive at the
next linear say in what order W_O reads the heads. The weights are never touched.
"""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from conwalk.models import inference
from conwalk.models.interception import AttentionCall, Backend, intercept
from conwalk.models.linear import Linear, linears, out_width

_EXACT_INTEGERS = {torch.float64: 2.0**40, torch.float32: 2.0**18}
_DIGIT_RADIX = 128.0  # bfloat16 holds integers exactly only up to 256

Labels = Literal["global", "local", "random"]


@dataclass
class Observation:
    """What one attention call showed during a tagged pass.

    Attributes:
        backend: how the call was noticed.
        path: innermost module that was running.
        n_heads: query heads.
        lengths: numbers of queries and of keys.
        value: labels seen in the values of the first key, ``(value head, k)``.
        value_linears: how many linear calls came before.
        mixed: labels at the input of the next linear of matching width, ``(head · k,)``.
        output: that linear, or None if none came before the next call.
    """

    backend: Backend
    path: str
    n_heads: int
    lengths: tuple[int, int]
    value: Tensor
    value_linears: int
    mixed: Tensor | None = None
    output: Linear | None = None


@dataclass(frozen=True)
class LinearCall:
    """One use of a linear layer: its first label and the labels it put out."""

    linear: Linear
    base: int
    labels: Tensor


@dataclass
class TaggedPass:
    """All that one tagged forward pass showed, in order."""

    observations: list[Observation] = field(default_factory=list)
    calls: list[LinearCall] = field(default_factory=list)


def _labels(kind: Labels, scale: float, call: int, base: int, width: int) -> Tensor:
    if kind == "random":
        seeded = torch.Generator().manual_seed(7919 * call + 13)
        return torch.randn(width, generator=seeded, dtype=torch.float64)
    first = 1 if kind == "local" else base
    return scale * torch.arange(first, first + width, dtype=torch.float64)


class _Pass:
    """The state of one tagged pass: the labels given out and what has been seen of them."""

    def __init__(self, kind: Labels, scale: float, digit: int, radix: float) -> None:
        self.seen = TaggedPass()
        self._kind: Labels = kind
        self._scale = scale
        self._digit = digit
        self._radix = radix
        self._base = 1
        self._running: list[str] = []
        self._pending: Observation | None = None

    def _shown(self, labels: Tensor) -> Tensor:
        if self._kind == "random" or self._scale == 0:
            return labels
        digits = torch.floor(labels / self._scale / self._radix**self._digit) % self._radix
        return digits * self._scale

    def linear(self, linear: Linear, x: Tensor) -> Tensor:
        self._arrive(linear, x)
        width = out_width(linear)
        labels = _labels(self._kind, self._scale, len(self.seen.calls), self._base, width)
        self.seen.calls.append(LinearCall(linear, self._base, labels))
        self._base += width
        shown = self._shown(labels).to(dtype=x.dtype, device=x.device)
        return shown.expand(*x.shape[:-1], width).clone()

    def _arrive(self, linear: Linear, x: Tensor) -> None:
        pending = self._pending
        if pending is None or x.shape[-1] != pending.n_heads * pending.value.shape[-1]:
            return
        pending.output = linear
        pending.mixed = x.reshape(-1, x.shape[-1])[0].double().cpu()
        self._pending = None

    def attention(self, call: AttentionCall) -> Tensor:
        value = call.value
        self._pending = Observation(
            backend=call.backend,
            path=self._running[-1] if self._running else "",
            n_heads=call.n_heads,
            lengths=(call.n_queries, value.shape[2]),
            value=value[0, :, 0].double().cpu(),
            value_linears=len(self.seen.calls),
        )
        self.seen.observations.append(self._pending)
        width = value.shape[-1]
        labels = _labels("local", self._scale, 0, 1, call.n_heads * width)
        shown = self._shown(labels).to(dtype=value.dtype, device=value.device)
        shown = shown.view(1, 1, call.n_heads, width)
        return shown.expand(value.shape[0], call.n_queries, -1, -1).contiguous()

    @contextmanager
    def following(self, module: nn.Module) -> Generator[None]:
        """Know, while the context lasts, which module is running."""
        with ExitStack() as hooks:
            for path, m in module.named_modules():
                if any(True for _ in m.children()):
                    enter = m.register_forward_pre_hook(lambda *_, p=path: self._running.append(p))
                    leave = m.register_forward_hook(
                        lambda *_: self._running.pop() and None, always_call=True
                    )
                    hooks.callback(enter.remove)
                    hooks.callback(leave.remove)
            yield

    @contextmanager
    def labelling(self, module: nn.Module) -> Generator[None]:
        """Let every linear put out labels while the context lasts."""
        with ExitStack() as restore:
            for linear in set(linears(module).values()):
                own = linear.__dict__.get("forward")
                if own is None:
                    restore.callback(linear.__dict__.pop, "forward")
                else:
                    restore.callback(linear.__dict__.__setitem__, "forward", own)
                linear.__dict__["forward"] = lambda x, *_, m=linear, **__: self.linear(m, x)
            yield


class Tagger:
    """Sends labels through one model; each call of :meth:`run` is one tiny forward pass."""

    def __init__(self, module: nn.Module, inputs: dict[str, Any]) -> None:
        self._module = module
        self._inputs = inputs
        self._radix = _EXACT_INTEGERS.get(inference.dtype_of(module), _DIGIT_RADIX)

    def run(self, kind: Labels = "global", scale: float = 1.0) -> TaggedPass:
        """One labelled pass; in low precision one pass for each digit of the labels.

        Args:
            kind: labels unique over the model, unique within each linear, or random.
            scale: factor on all labels; 0 shows what is added to them on the way.
        """
        whole = self._once(kind, scale, 0)
        if kind == "random" or scale == 0:
            return whole
        largest = max((c.base + len(c.labels) for c in whole.calls), default=0)
        digit = 1
        while self._radix**digit < largest:
            part = self._once(kind, scale, digit)
            for seen, more in zip(whole.observations, part.observations, strict=True):
                seen.value = seen.value + more.value * self._radix**digit
                if seen.mixed is not None and more.mixed is not None:
                    seen.mixed = seen.mixed + more.mixed * self._radix**digit
            digit += 1
        return whole

    def _once(self, kind: Labels, scale: float, digit: int) -> TaggedPass:
        tagged = _Pass(kind, scale, digit, self._radix)
        with (
            inference.eager(self._module),
            tagged.following(self._module),
            tagged.labelling(self._module),
            intercept(tagged.attention, batch=1),
        ):
            inference.forward(self._module, self._inputs)
        return tagged.seen


@contextmanager
def labelled(module: nn.Module) -> Generator[None]:
    """Every linear layer of a module puts out labels while the context lasts.

    A model whose linear layers have no weights runs like that.
    """
    with _Pass("global", 1.0, 0, _EXACT_INTEGERS[torch.float32]).labelling(module):
        yield
