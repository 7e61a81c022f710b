"""Find out how a model lays out its attention by sending labelled numbers through it.

During one tiny forward pass every linear layer puts out integer labels (which layer, which
channel) instead of its result, and every attention call puts out labels too. Labels that
arrive as values say which rows of which linear make which head; labels that arrive at the
next linear say in what order W_O reads the heads. The weights are never touched.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from conwalk.models import inference, offload
from conwalk.models.affine import AffineModule, affine_modules
from conwalk.models.interception import (
    AttentionCall,
    ParameterFunctionMode,
    ParameterProduct,
    Parameters,
    intercept,
)
from conwalk.models.interception.contraction import Product
from conwalk.models.interception.pieces import Pieces
from conwalk.models.linear import Linear, linears, out_width
from conwalk.models.observations import (
    Arrival,
    Labels,
    LinearCall,
    Observation,
    TaggedPass,
    linear_labels,
    pattern_labels,
)

_EXACT_INTEGERS = {torch.float64: 2.0**40, torch.float32: 2.0**18}
_DIGIT_RADIX = 128.0  # bfloat16 holds integers exactly only up to 256

_CANDIDATES = 6
"""How many linears after an attention call may be the one that reads its heads."""
_OPEN = 4
"""How many attention calls may wait for it at a time."""


def _is_composite(module: nn.Module) -> bool:
    """Whether attention may be computed inside: it has parts, or parameters and no usual use."""
    if any(True for _ in module.children()):
        return True
    usual = nn.Linear | Conv1D | nn.Embedding | nn.LayerNorm
    return not isinstance(module, usual) and any(True for _ in module.parameters(recurse=False))


class Running:
    """Which module is running."""

    def __init__(self) -> None:
        self._paths: list[str] = []

    @property
    def path(self) -> str:
        """Path of the innermost module with parts of its own; empty outside of all."""
        return self._paths[-1] if self._paths else ""

    @contextmanager
    def following(self, module: nn.Module) -> Generator[None]:
        """Know, while the context lasts, which module is running."""
        with ExitStack() as hooks:
            for path, m in module.named_modules():
                if _is_composite(m):
                    enter = m.register_forward_pre_hook(lambda *_, p=path: self._paths.append(p))
                    leave = m.register_forward_hook(
                        lambda *_: self._paths.pop() and None, always_call=True
                    )
                    hooks.callback(enter.remove)
                    hooks.callback(leave.remove)
            yield


class _Pass:
    """The state of one tagged pass: the labels given out and what has been seen of them."""

    def __init__(
        self,
        running: Running,
        kind: Labels,
        scale: float,
        digit: int,
        radix: float,
        pattern: int | None = None,
        silenced: frozenset[int] = frozenset(),
    ) -> None:
        self._running = running
        self._silenced = silenced
        self.seen = TaggedPass()
        self._kind: Labels = kind
        self._pattern = pattern
        self._scale = scale
        self._digit = digit
        self._radix = radix
        self._base = 1

    def _shown(self, labels: Tensor) -> Tensor:
        if self._kind == "random" or self._scale == 0:
            return labels
        digits = torch.floor(labels / self._scale / self._radix**self._digit) % self._radix
        return digits * self._scale

    def linear(self, linear: Linear, x: Tensor) -> Tensor:
        """Labels in place of what a linear module puts out."""
        labels = self._put_out(linear, x, out_width(linear))
        return labels.expand(*x.shape[:-1], len(labels)).clone()

    def product(self, linear: ParameterProduct, seen: Product, run: Callable[[], Tensor]) -> Tensor:
        """Labels in place of a product with a parameter."""
        y, contraction = run(), seen.contraction
        width = contraction.written(y).shape[-1]
        return contraction.spread(self._put_out(linear, contraction.read(seen.x), width), y)

    def _put_out(self, linear: Linear, x: Tensor, width: int) -> Tensor:
        self._arrive(linear, x)
        labels = linear_labels(self._kind, self._scale, len(self.seen.calls), self._base, width)
        last = x.reshape(-1, x.shape[-1])[-1:].detach().clone()
        self.seen.calls.append(LinearCall(linear, self._base, labels, tuple(x.shape[:-1]), last))
        self._base += width
        return self._shown(labels).to(dtype=x.dtype, device=x.device)

    def _arrive(self, linear: Linear, x: Tensor) -> None:
        open_to_it = [
            seen
            for seen in self.seen.observations[-_OPEN:]
            if len(seen.arrivals) < _CANDIDATES
            and x.shape[-1] == seen.n_heads * seen.value.shape[-1]
        ]
        if open_to_it and x.numel():
            row = x.reshape(-1, x.shape[-1])[0].double().cpu()
            for seen in open_to_it:
                seen.arrivals.append(Arrival(linear, row, tuple(x.shape[:-1])))

    def softmax(self) -> None:
        """One more softmax."""
        self.seen.softmaxes += 1

    def attention(self, call: AttentionCall) -> Tensor:
        """Labels in place of what an attention call puts out."""
        value = call.value
        seen = Observation(
            backend=call.backend,
            path=self._running.path,
            n_heads=call.n_heads,
            lengths=(call.n_queries, value.shape[2]),
            value=value[0, :, 0].double().cpu(),
            steady=torch.equal(value[0, :, 0], value[-1, :, -1]),
            value_linears=len(self.seen.calls),
            base=self._base,
            groups=value.shape[0],
            reach=call.reach,
        )
        self.seen.observations.append(seen)
        labels = self._mixed_labels(call.n_heads, value.shape[-1])
        shown = labels.to(dtype=value.dtype, device=value.device)
        return shown.expand(value.shape[0], call.n_queries, -1, -1).contiguous()

    def _mixed_labels(self, n_heads: int, width: int) -> Tensor:
        if self._pattern is not None:
            return pattern_labels(self._pattern, len(self.seen.observations), n_heads, width)
        kind: Labels = "global" if self._kind == "global" else "local"
        labels = self._shown(linear_labels(kind, self._scale, 0, self._base, n_heads * width))
        self._base += n_heads * width
        if len(self.seen.observations) - 1 in self._silenced:
            labels = torch.zeros_like(labels)
        return labels.view(n_heads, width)

    @contextmanager
    def labelling(
        self, module: nn.Module, affine: Mapping[nn.Module, AffineModule] | None = None
    ) -> Generator[None]:
        """Let every linear put out labels while the context lasts."""
        maps: dict[nn.Module, Linear] = {m: m for m in linears(module).values()}
        with ExitStack() as restore:
            for m, linear in {**maps, **(affine or {})}.items():
                own = m.__dict__.get("forward")
                if own is None:
                    restore.callback(m.__dict__.pop, "forward")
                else:
                    restore.callback(m.__dict__.__setitem__, "forward", own)
                m.__dict__["forward"] = lambda x, *_, of=linear, **__: self.linear(of, x)
            yield


class Tagger:
    """Sends labels through one model; each call of :meth:`run` is one tiny forward pass."""

    def __init__(self, module: nn.Module, inputs: dict[str, Any]) -> None:
        self._module = module
        self._inputs = inputs
        self._radix = _EXACT_INTEGERS.get(inference.dtype_of(module), _DIGIT_RADIX)
        self._parameters = Parameters(module)
        self._affine = affine_modules(module, inputs)

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
                for known, arrived in zip(seen.arrivals, more.arrivals, strict=False):
                    known.labels = known.labels + arrived.labels * self._radix**digit
            digit += 1
        return whole

    def pattern(self, number: int) -> TaggedPass:
        """One pass in which linears put out random labels, the same every time.

        Args:
            number: the pattern that attention calls put out instead of labels; 0 for zeros.
        """
        return self._once("random", 1.0, 0, number)

    def pieces(self) -> dict[str, str]:
        """Places at which softmaxes meet values in pieces, and what is done there instead."""
        running = Running()
        mode = Pieces(lambda: running.path)
        labels = labelled if offload.is_empty(self._module) else nullcontext
        with (
            inference.eager(self._module),
            labels(self._module),
            running.following(self._module),
            mode,
        ):
            inference.forward(self._module, self._inputs)
        return mode.found

    def silenced(self, calls: frozenset[int]) -> TaggedPass:
        """One labelled pass in which some attention calls put out zeros.

        Args:
            calls: their positions among all attention calls of the pass.
        """
        return self._once("global", 1.0, 0, silenced=calls)

    def _once(
        self,
        kind: Labels,
        scale: float,
        digit: int,
        pattern: int | None = None,
        silenced: frozenset[int] = frozenset(),
    ) -> TaggedPass:
        running = Running()
        parts = set(self._module.modules())
        tagged = _Pass(running, kind, scale, digit, self._radix, pattern, silenced)
        with (
            inference.eager(self._module),
            running.following(self._module),
            tagged.labelling(self._module, self._affine),
            intercept(tagged.attention, batch=1, on_softmax=tagged.softmax),
            ParameterFunctionMode(tagged.product, self._parameters),
        ):
            returned = inference.forward(self._module, self._inputs)
            tagged.seen.rebuilt = set(self._module.modules()) != parts
        tagged.seen.returned = inference.first_tensor(returned)
        return tagged.seen


@contextmanager
def labelled(module: nn.Module) -> Generator[None]:
    """Every linear layer of a module puts out labels while the context lasts.

    A model whose linear layers have no weights runs like that.
    """
    with _Pass(Running(), "global", 1.0, 0, _EXACT_INTEGERS[torch.float32]).labelling(module):
        yield
