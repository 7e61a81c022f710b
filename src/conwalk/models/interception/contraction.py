"""How a product of activations with a parameter contracts their axes, whatever function made it.

Every such product is written as an einsum: letters of the activations, of the parameter and of
the result say which axes are input channels (in both factors, gone in the result), output
channels (of the parameter, kept), blocks (in all three) and positions (of the activations, kept).
"""

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_MATMUL = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm, torch.bmm}
_EINSUM = {torch.einsum, torch.functional.einsum}
_CONVOLUTIONS = {functional.conv1d, functional.conv2d}
_ADDMM = {torch.addmm, Tensor.addmm}
FUNCTIONS: frozenset[Any] = frozenset(
    {functional.linear, *_MATMUL, *_EINSUM, *_CONVOLUTIONS, *_ADDMM}
)
"""The functions that :func:`factors` can read."""

_MATRIX_AXES = 2


@dataclass(frozen=True)
class Contraction:
    """Which axes of activations and of a parameter a product contracts.

    Attributes:
        x: a letter for each axis of the activations.
        weight: a letter for each axis of the parameter.
        y: a letter for each axis of the result.
        groups: groups of channels of a convolution; 1 for everything else.
    """

    x: str
    weight: str
    y: str
    groups: int = 1

    @property
    def channels_in(self) -> str:
        """Axes of the activations that are input channels, in their order."""
        return "".join(c for c in self.x if c in self.weight)

    @property
    def channels_out(self) -> str:
        """Axes of the result that are output channels, in their order."""
        return "".join(c for c in self.y if c in self.weight)

    @property
    def positions(self) -> str:
        """Axes of the activations that the result keeps, in their order."""
        return "".join(c for c in self.x if c in self.y and c not in self.weight)

    @property
    def valid(self) -> bool:
        """Whether it maps input channels to output channels, the same way at every position."""
        return (
            all(len(set(t)) == len(t) for t in (self.x, self.weight, self.y))
            and set(self.y) <= set(self.x) | set(self.weight)
            and any(c not in self.y for c in self.channels_in)
            and any(c not in self.x for c in self.channels_out)
        )

    def fits(self, x: Tensor, weight: Tensor) -> bool:
        """Whether what a factor has alone, and the result has not, is a single entry."""
        both = ((x, self.x, self.weight), (weight, self.weight, self.x))
        return self.valid and all(
            t.shape[axis] == 1
            for t, mine, other in both
            for axis, c in enumerate(mine)
            if c not in other and c not in self.y
        )

    def read(self, x: Tensor) -> Tensor:
        """The activations as ``(*positions, in)``."""
        return _ordered(x, self.x, self.positions + self.channels_in).flatten(len(self.positions))

    def written(self, y: Tensor) -> Tensor:
        """The result as ``(*positions, out)``, positions in the order of the activations."""
        return _ordered(y, self.y, self.positions + self.channels_out).flatten(len(self.positions))

    def matrix(self, weight: Tensor) -> Tensor:
        """The parameter as ``(in, out)``, zero between blocks."""
        if self.groups > 1:
            return torch.block_diag(*(w.t() for w in weight.flatten(1).chunk(self.groups)))
        letters = "".join(c for c in self.weight if c in self.x or c in self.y)
        weight = _ordered(weight.reshape(weight.shape[: len(self.weight)]), self.weight, letters)
        blocks = [c for c in self.channels_in if c in self.y]
        sizes = dict(zip(letters, weight.shape, strict=True))
        fresh = dict(zip(blocks, _unused(self.x + self.weight), strict=False))
        out = "".join(fresh.get(c, c) for c in self.channels_out)
        eyes = [torch.eye(sizes[c], dtype=weight.dtype, device=weight.device) for c in blocks]
        terms = ",".join([letters, *(c + fresh[c] for c in blocks)])
        whole = torch.einsum(f"{terms}->{self.channels_in}{out}", weight, *eyes)
        return whole.reshape(prod(sizes[c] for c in self.channels_in), -1)

    def spread(self, labels: Tensor, like: Tensor) -> Tensor:
        """Labels ``(out,)`` in place of a result, the same at every position."""
        sizes = dict(zip(self.y, like.shape, strict=True))
        shape = [sizes[c] if c in self.weight else 1 for c in self.y]
        return labels.reshape(shape).expand(like.shape).clone()


def _unused(letters: str) -> str:
    return "".join(c for c in string.ascii_letters if c not in letters)


def _ordered(t: Tensor, letters: str, wanted: str) -> Tensor:
    """The axes of a tensor in another order; axes of one entry that nobody wants go."""
    for axis in reversed(range(len(letters))):
        if letters[axis] not in wanted:
            t = t.select(axis, 0)
    present = [c for c in letters if c in wanted]
    return t.permute([present.index(c) for c in wanted])


@dataclass(frozen=True)
class Product:
    """One product of activations with a parameter.

    Attributes:
        x: the activations.
        weight: the parameter, or the view of one that was multiplied.
        contraction: how.
        bias: the vector that the same call adds to the result.
    """

    x: Tensor
    weight: Tensor
    contraction: Contraction
    bias: Tensor | None = None


def product(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    is_parameter: Callable[[Any], bool],
) -> Product | None:
    """Read one call of one of ``FUNCTIONS``.

    Args:
        func: the function.
        args: what it was given.
        kwargs: what it was given by name.
        is_parameter: tells parameters, and views of them, from activations.

    Returns:
        The product, or None if the call is not one of activations with a parameter that maps
        channels to channels.
    """
    if func in _EINSUM:
        found = _einsum(args, is_parameter)
    elif func is functional.linear:
        found = _linear(**_named(("input", "weight", "bias"), args, kwargs))
    elif func in _CONVOLUTIONS:
        names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
        found = _convolution(_named(names, args, kwargs))
    elif func in _ADDMM:
        found = _addmm(_named(("input", "mat1", "mat2", "beta", "alpha"), args, kwargs))
    else:
        found = _matmul(args, is_parameter)
    if found is None or not is_parameter(found.weight) or is_parameter(found.x):
        return None
    return found if found.contraction.fits(found.x, found.weight) else None


def _named(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return dict(zip(names, args, strict=False)) | dict(kwargs)


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Product | None:
    if weight.dim() != _MATRIX_AXES:
        return None
    lead = string.ascii_lowercase[: input.dim() - 1]
    return Product(input, weight, Contraction(lead + "I", "OI", lead + "O"), bias)


def _addmm(named: dict[str, Any]) -> Product | None:
    if named.get("beta", 1) != 1 or named.get("alpha", 1) != 1:
        return None
    return Product(named["mat1"], named["mat2"], Contraction("aI", "IO", "aO"), named["input"])


def _convolution(named: dict[str, Any]) -> Product | None:
    """A convolution whose kernel is one place wide."""
    weight, x = named["weight"], named["input"]
    still = _all(named.get("stride", 1), 1) and _all(named.get("padding", 0), 0)
    if not still or set(weight.shape[2:]) != {1} or x.dim() != weight.dim():
        return None
    lead = string.ascii_lowercase[: x.dim() - 2]
    contraction = Contraction("ZI" + lead, "OI", "ZO" + lead, named.get("groups", 1))
    return Product(x, weight, contraction, named.get("bias"))


def _all(given: Any, wanted: int) -> bool:
    return all(g == wanted for g in (given if isinstance(given, list | tuple) else (given,)))


def _pair(operands: Any, is_parameter: Callable[[Any], bool]) -> tuple[int, Tensor, Tensor] | None:
    """Which of two tensors is the parameter, the other one, and the parameter."""
    if len(operands) != _MATRIX_AXES or not all(isinstance(t, Tensor) for t in operands):
        return None
    sides = [side for side in (0, 1) if is_parameter(operands[side])]
    return (sides[0], operands[1 - sides[0]], operands[sides[0]]) if len(sides) == 1 else None


def _einsum(args: Sequence[Any], is_parameter: Callable[[Any], bool]) -> Product | None:
    if not isinstance(args[0], str):
        return None
    several = len(args) == 2 and isinstance(args[1], list | tuple)
    operands = args[1] if several else args[1:]
    pair = _pair(operands, is_parameter)
    inputs, arrow, y = args[0].replace(" ", "").partition("->")
    if pair is None or not arrow:
        return None
    side, x, weight = pair
    letters = inputs.split(",")
    mine, theirs = letters[1 - side], letters[side]
    if "..." in theirs or (y.startswith("...") != mine.startswith("...")) or "..." in mine[1:]:
        return None
    dots = _unused(inputs)[: x.dim() - len(mine.replace("...", ""))]
    return Product(
        x, weight, Contraction(mine.replace("...", dots), theirs, y.replace("...", dots))
    )


def _matmul(args: Sequence[Any], is_parameter: Callable[[Any], bool]) -> Product | None:
    pair = _pair(args, is_parameter)
    if pair is None or min(t.dim() for t in args) < _MATRIX_AXES:
        return None
    side, x, weight = pair
    lead = max(x.dim(), weight.dim()) - _MATRIX_AXES
    names, fresh = string.ascii_lowercase[:lead], iter(string.ascii_uppercase[:8])
    mine, theirs = list(names[lead + 2 - x.dim() :]), list(names[lead + 2 - weight.dim() :])
    for back in range(1, len(theirs) + 1):
        # a single entry that meets many is an axis of its own, which the result does not have
        if weight.shape[-2 - back] == 1:
            theirs[-back] = next(fresh)
        elif back <= len(mine) and x.shape[-2 - back] == 1:
            mine[-back] = next(fresh)
    if side == 1:
        contraction = Contraction("".join(mine) + "QI", "".join(theirs) + "IO", names + "QO")
    else:
        contraction = Contraction("".join(mine) + "IQ", "".join(theirs) + "OI", names + "OQ")
    return Product(x, weight, contraction)
