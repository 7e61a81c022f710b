"""Products of activations with parameters, noticed where they are made.

For models that multiply with parameters themselves instead of calling a linear module.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import ref

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from conwalk.models.interception.composite import OPENED
from conwalk.models.interception.contraction import FUNCTIONS, Contraction, Product, product


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
    """

    owner: "ref[nn.Module]"
    name: str
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def value(self) -> Tensor:
        """The part as it is now, detached."""
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
    """Tells parameters, and views of them, from other tensors."""

    def __init__(self, module: nn.Module) -> None:
        self._owners: dict[int, tuple[nn.Module, str, Tensor]] = {}
        for owner in module.modules():
            for name, p in owner.named_parameters(recurse=False):
                if p.is_floating_point() and not p.is_meta:
                    self._owners.setdefault(_storage(p), (owner, name, p))

    def __contains__(self, t: Any) -> bool:
        """Whether this is a parameter or a view of one."""
        return isinstance(t, Tensor) and t.is_floating_point() and _storage(t) in self._owners

    def place(self, t: Tensor | None) -> Place | None:
        """Where a view of a parameter lies; None for anything else."""
        found = None if t is None else self._owners.get(_storage(t))
        if t is None or found is None:
            return None
        owner, name, whole = found
        offset = int(t.storage_offset()) - int(whole.storage_offset())
        return Place(ref(owner), name, offset, tuple(t.shape), tuple(t.stride()))

    def record(self, seen: Product) -> ParameterProduct | None:
        """The map behind one product; None if it adds what is not a parameter."""
        place, bias = self.place(seen.weight), self.place(seen.bias)
        if place is None or (bias is None and seen.bias is not None):
            return None
        return ParameterProduct(place, seen.contraction, bias)


ProductHandler = Callable[[ParameterProduct, Product, Callable[[], Tensor]], Tensor]
"""Takes a map, the product in which it is used, and what carries the product out."""


class ParameterFunctionMode(TorchFunctionMode):
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
        self._looking = True

    @contextmanager
    def quiet(self) -> Generator[None]:
        """Look away."""
        before, self._looking = self._looking, False
        try:
            yield
        finally:
            self._looking = before

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
        if not self._looking or func not in FUNCTIONS:
            return func(*args, **kwargs)
        seen = product(func, args, kwargs, self._parameters.__contains__)
        record = None if seen is None else self._parameters.record(seen)
        if seen is None or record is None or (self._only is not None and record not in self._only):
            return func(*args, **kwargs)
        return self._handler(record, seen, lambda: func(*args, **kwargs))
