"""Products of activations with parameters, noticed where they are made.

For models that multiply with parameters themselves instead of calling a linear module.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import ref

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from conwalk.models.interception.composite import OPENED
from conwalk.models.interception.contraction import FUNCTIONS, Contraction, Product, product
from conwalk.models.interception.looking import LookingMode

_REMEMBERED = 16
"""How many tensors made of parameters are kept for the products they are made for."""


def _storage(t: Tensor) -> int:
    return t.untyped_storage().data_ptr()


@dataclass(frozen=True)
class Place:
    """A parameter, or a part of one, and how products contract it; the same in every pass.

    Attributes:
        owner: the module that holds the parameter.
        name: its name there.
        offset: first entry of the part in the parameter's storage, counted from the parameter.
        shape: of the part.
        stride: of the part.
        recipe: how a model made what it multiplies with out of parameters; empty for a view of one.
        made: what it made.
    """

    owner: "ref[nn.Module]"
    name: str
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    recipe: str = ""
    made: Tensor | None = field(default=None, compare=False)

    def value(self) -> Tensor:
        """The part as it is now, detached; what was made of parameters as it was made."""
        if self.made is not None:
            return self.made.as_strided(self.shape, self.stride, self.offset)
        owner = self.owner()
        if owner is None:
            raise ReferenceError(f"the module that held {self.name} is gone")
        whole: Tensor = getattr(owner, self.name).detach()
        return whole.as_strided(self.shape, self.stride, whole.storage_offset() + self.offset)


@dataclass(frozen=True)
class ParameterProduct:
    """A linear map that a model carries out as a product with a parameter.

    Equal records are the same map: the same part of the same parameter, contracted alike.

    Attributes:
        place: the parameter.
        contraction: how it is contracted.
        bias_place: what the same call adds, or None.
    """

    place: Place
    contraction: Contraction
    bias_place: Place | None = None

    @property
    def weight(self) -> Tensor:
        """The parameter as it lies."""
        return self.place.value()

    @property
    def bias(self) -> Tensor | None:
        """The bias ``(out,)``, or None."""
        return None if self.bias_place is None else self.bias_place.value()

    def matrix(self) -> Tensor:
        """The map as ``(in, out)``."""
        return self.contraction.matrix(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Carry the map out on ``(..., in)``."""
        y = x @ self.matrix()
        return y if self.bias is None else y + self.bias


class Parameters:
    """Tells parameters, views of them and what is made of nothing else from other tensors."""

    def __init__(self, module: nn.Module) -> None:
        self._made: dict[int, tuple[Place, Tensor]] = {}
        self._owners: dict[int, tuple[nn.Module, str, Tensor]] = {}
        for owner in module.modules():
            for name, p in owner.named_parameters(recurse=False):
                if p.is_floating_point() and not p.is_meta:
                    self._owners.setdefault(_storage(p), (owner, name, p))

    def __contains__(self, t: Any) -> bool:
        """Whether this is a parameter or a view of one."""
        return isinstance(t, Tensor) and t.is_floating_point() and _storage(t) in self._owners

    def _knows(self, t: Any) -> bool:
        """Whether this is one, or was made of nothing else."""
        known = isinstance(t, Tensor) and t.is_floating_point()
        return known and (_storage(t) in self._owners or _storage(t) in self._made)

    def product(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Product | None:
        """Read a call as a product of activations with a parameter, or with what is made of some.

        What is made of parameters alone may be activations as well, as learned queries are: so
        parameters themselves come first.
        """
        if func not in FUNCTIONS:
            return None
        return product(func, args, kwargs, self.__contains__) or product(
            func, args, kwargs, self._knows
        )

    def note(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], out: Any
    ) -> None:
        """Remember what a function made of parameters alone; the last few only."""
        given = tree_leaves((args, kwargs))
        tensors = [t for t in given if isinstance(t, Tensor)]
        if not tensors or not all(map(self._knows, tensors)):
            return
        origin = self.place(tensors[0])
        if origin is None or not isinstance(out, Tensor) or self._knows(out):
            return
        said = [self._said(a) for a in given]
        recipe = f"{getattr(func, '__name__', func)}({', '.join(said)})"
        self._made[_storage(out)] = (replace(origin, recipe=recipe), out)
        while len(self._made) > _REMEMBERED:
            del self._made[next(iter(self._made))]

    def _said(self, argument: Any) -> str:
        place = self.place(argument) if isinstance(argument, Tensor) else None
        if place is None:
            return repr(argument)
        of = f"{id(place.owner())}.{place.name}" if not place.recipe else place.recipe
        return f"{of}[{place.offset}, {place.shape}, {place.stride}]"

    def place(self, t: Tensor | None) -> Place | None:
        """Where a view of a parameter, or of what was made of some, lies; None for others."""
        if t is None:
            return None
        if _storage(t) in self._owners:
            owner, name, whole = self._owners[_storage(t)]
            offset = int(t.storage_offset()) - int(whole.storage_offset())
            return Place(ref(owner), name, offset, tuple(t.shape), tuple(t.stride()))
        if _storage(t) not in self._made:
            return None
        origin, made = self._made[_storage(t)]
        return replace(
            origin,
            offset=int(t.storage_offset()),
            shape=tuple(t.shape),
            stride=tuple(t.stride()),
            made=made.detach(),
        )

    def record(self, seen: Product) -> ParameterProduct | None:
        """The map behind one product; None if it adds what is not a parameter."""
        place, bias = self.place(seen.weight), self.place(seen.bias)
        if place is None or (bias is None and seen.bias is not None):
            return None
        return ParameterProduct(place, seen.contraction, bias)


ProductHandler = Callable[[ParameterProduct, Product, Callable[[], Tensor]], Tensor]
"""Takes a map, the product in which it is used, and what carries the product out."""


class ParameterFunctionMode(LookingMode):
    """Hands every product of activations with a parameter to a handler.

    Args:
        handler: returns what the model goes on with.
        parameters: the parameters to look out for.
        only: the maps to hand over; all by default.
    """

    def __init__(
        self,
        handler: ProductHandler,
        parameters: Parameters,
        only: Iterable[ParameterProduct] | None = None,
    ) -> None:
        super().__init__()
        self._handler = handler
        self._parameters = parameters
        self._only = None if only is None else set(only)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Carry out ``func``, or have the handler do it."""
        kwargs = kwargs or {}
        if self._looking and func in OPENED:
            with self:
                return OPENED[func](*args, **kwargs)
        if not self._looking:
            return func(*args, **kwargs)
        seen = self._parameters.product(func, args, kwargs)
        record = None if seen is None else self._parameters.record(seen)
        if seen is not None and record is not None and (self._only is None or record in self._only):
            return self._handler(record, seen, lambda: func(*args, **kwargs))
        out = func(*args, **kwargs)
        self._parameters.note(func, args, kwargs, out)
        return out
