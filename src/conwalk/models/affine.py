"""Modules that are linear maps as a whole, whatever they are made of.

A low-rank adapter around a projection, a projection whose weights are packed, two projections in
a row: if a module takes vectors and is affine in them, then its matrix is what it makes of the
unit vectors, and it counts as one linear layer. No such module is known by name.
"""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList
from transformers.pytorch_utils import Conv1D

from conwalk import tolerance
from conwalk.models import inference, offload
from conwalk.models.interception import AttentionCall, intercept

_OF_FAMILIES = "transformers.models."
_TORCH = "torch.nn.modules."
_CONTAINERS = "torch.nn.modules.container"
_CHUNK = 1024
_MATRIX_AXES = 2
_TENSORS = ("_parameters", "_buffers")


@dataclass(frozen=True)
class AffineModule:
    """A module that maps vectors affinely, one by one.

    Attributes:
        module: the module.
        width_in: d, of the vectors it takes.
        width_out: of those it gives.
        dtype: in which it runs.
        device: on which it runs.
    """

    module: nn.Module
    width_in: int
    width_out: int
    dtype: torch.dtype
    device: torch.device

    @cached_property
    def _parts(self) -> tuple[Tensor, Tensor]:
        """The matrix ``(in, out)`` and the bias ``(out,)``, from the unit vectors and zero."""
        basis = torch.eye(self.width_in, device=self.device, dtype=torch.float64)
        with inference.eager(self.module):
            zero = _run(self.module, torch.zeros_like(basis[:1]), self.dtype)[0]
            rows = [_run(self.module, part, self.dtype) - zero for part in basis.split(_CHUNK)]
        return torch.cat(rows).to(self.dtype), zero.to(self.dtype)

    def matrix(self) -> Float[Tensor, "d_in d_out"]:
        """The map as ``(in, out)``, detached."""
        return self._parts[0]

    @property
    def weight(self) -> Float[Tensor, "d_in d_out"]:
        """The same, as the weight of other linear layers is called."""
        return self._parts[0]

    @property
    def bias(self) -> Float[Tensor, " d_out"] | None:
        """The bias ``(out,)``, or None where the module adds nothing."""
        bias = self._parts[1]
        return bias if bool(bias.any()) else None

    def forward(self, x: Tensor) -> Tensor:
        """Carry the map out on ``(..., in)`` as the module does."""
        with inference.eager(self.module):
            return self.module.forward(x)


def _run(module: nn.Module, x: Tensor, dtype: torch.dtype) -> Tensor:
    """What a module makes of vectors, in double precision where it can be had."""
    if not any(t.is_meta for t in _held(module)):
        try:
            with _in_double(module):
                return module.forward(x[None])[0].double()
        except (RuntimeError, TypeError, ValueError):
            # packed weights have kernels of their own, for the dtype they are made for
            pass
    return module.forward(x[None].to(dtype))[0].double()


@contextmanager
def _in_double(module: nn.Module) -> Generator[None]:
    """Floating weights and buffers in double precision while the context lasts.

    They are exchanged where torch keeps them: what a class does when an attribute is set is its own
    business.
    """
    copies: dict[Tensor, Tensor] = {}
    kept = [(vars(m), name, vars(m)[name]) for m in module.modules() for name in _TENSORS]
    try:
        for holder, name, tensors in kept:
            holder[name] = {n: _double(t, copies) for n, t in tensors.items()}
        yield
    finally:
        for holder, name, tensors in kept:
            holder[name] = tensors


def _double(t: Tensor | None, copies: dict[Tensor, Tensor]) -> Tensor | None:
    if t is None or not t.is_floating_point():
        return t
    return copies.setdefault(t, t.detach().double())


def affine_modules(module: nn.Module, inputs: dict[str, Any]) -> dict[nn.Module, AffineModule]:
    """Find the outermost modules that act on vectors as one affine map.

    Modules of transformers' own families are not looked at: they are made of plain linear layers.
    A module that does just what the one linear layer in it does is left to that layer.

    Args:
        module: the model; left as it was found.
        inputs: keyword arguments of one small forward pass.

    Returns:
        The affine map of every such module.
    """
    possible = {m for m in module.modules() if m is not module and _is_candidate(m)}
    if not possible or offload.is_empty(module):
        return {}
    seen = _Seen()
    with inference.eager(module), seen.watching(module, possible):
        inference.forward(module, inputs)
    found: dict[nn.Module, AffineModule] = {}
    _descend(module, seen, found)
    return found


def _descend(module: nn.Module, seen: "_Seen", found: dict[nn.Module, AffineModule]) -> None:
    for child in module.children():
        if child in found or isinstance(child, ParametrizationList):
            continue
        shown = seen.shown.get(child)
        if shown is not None and child not in seen.attending and _is_affine(shown):
            found[child] = shown
        else:
            _descend(child, seen, found)


def _is_candidate(module: nn.Module) -> bool:
    home = type(module).__module__
    plain = home.startswith((_OF_FAMILIES, _TORCH)) and not home.startswith(_CONTAINERS)
    if plain or is_plain(module):
        return False
    return any(p.dim() >= _MATRIX_AXES or not p.is_floating_point() for p in _held(module))


def _held(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


def is_plain(module: nn.Module) -> bool:
    """Whether a module is a linear layer that does nothing of its own."""
    return isinstance(module, nn.Linear | Conv1D) and type(module).forward in (
        nn.Linear.forward,
        Conv1D.forward,
    )


class _Seen:
    """What modules took and gave in one pass, and which of them attended."""

    def __init__(self) -> None:
        self.shown: dict[nn.Module, AffineModule] = {}
        self.attending: set[nn.Module] = set()
        self._spoilt: set[nn.Module] = set()
        self._running: list[nn.Module] = []

    @contextmanager
    def watching(self, module: nn.Module, possible: set[nn.Module]) -> Generator[None]:
        with ExitStack() as hooks, intercept(self._attention, batch=1):
            for m in possible:
                enter = m.register_forward_pre_hook(lambda m, _args: self._running.append(m))
                leave = m.register_forward_hook(self._leave, with_kwargs=True, always_call=True)
                hooks.callback(enter.remove)
                hooks.callback(leave.remove)
            yield

    def _attention(self, call: AttentionCall) -> Tensor:
        self.attending.update(self._running)
        return call.run().mixed

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        self._running.pop()
        known = _vectors(module, args, kwargs, output)
        if known is None or self.shown.get(module, known) != known:
            self._spoilt.add(module)
        if known is not None:
            self.shown[module] = known
        if module in self._spoilt:
            self.shown.pop(module, None)


def _vectors(module: nn.Module, args: Any, kwargs: Any, output: Any) -> AffineModule | None:
    """The record of a module that took one tensor of vectors and gave one; else None."""
    if kwargs or len(args) != 1 or not all(isinstance(t, Tensor) for t in (args[0], output)):
        return None
    x: Tensor = args[0]
    alike = x.dim() > 1 and x.shape[:-1] == output.shape[:-1]
    if not alike or not x.is_floating_point() or not output.is_floating_point():
        return None
    return AffineModule(module, x.shape[-1], output.shape[-1], x.dtype, x.device)


def _is_affine(shown: AffineModule) -> bool:
    """Whether a module maps each vector alone, wherever it stands, and affinely."""
    seeded = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, shown.width_in, generator=seeded, dtype=torch.float64).to(shown.device)
    zero = torch.zeros_like(x)
    rows = torch.stack([x, zero, y, x, x + y, -2 * x, x])
    others = torch.stack([y, y, zero, zero, -y, x, x])
    try:
        with inference.eager(shown.module):
            there, again = (_run(shown.module, r, shown.dtype) for r in (rows, others))
            if _same_as_one_inside(shown, rows, there):
                return False
    except (RuntimeError, TypeError, ValueError, IndexError):
        return False
    b = there[1]
    expected = torch.stack(
        [there[0], b, there[2], there[0], there[0] + there[2] - b, 3 * b - 2 * there[0], there[0]]
    )
    moved = torch.stack([there[2], there[2], b, b, 2 * b - there[2], there[0], there[0]])
    size = there.abs().max()
    limit = tolerance.rounding(shown.dtype) * size
    errors = torch.stack([there - expected, again - moved]).abs()
    return bool(errors.max() <= limit) and bool(size > 0)


def _same_as_one_inside(shown: AffineModule, rows: Tensor, made: Tensor) -> bool:
    """Whether a module does no more than the single plain linear layer in it."""
    inside = [m for m in shown.module.modules() if is_plain(m)]
    if len(inside) != 1:
        return False
    alone = _run(inside[0], rows, shown.dtype)
    return alone.shape == made.shape and torch.equal(alone, made)
