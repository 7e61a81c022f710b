"""How many numbers a computation holds at a time, counted as torch makes them."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Held(TorchDispatchMode):
    """Counts the numbers held in storages made while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {id(t.untyped_storage()) for t in tree_leaves((args, kwargs)) if torch.is_tensor(t)}
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if torch.is_tensor(tensor):
                self._meet(tensor, given)
        return result

    def _meet(self, tensor: Tensor, given: set[int]) -> None:
        storage = tensor.untyped_storage()
        if id(storage) in self._known | given:
            return
        numbers = storage.nbytes() // tensor.element_size()
        self.now += numbers
        self.most = max(self.most, self.now)
        self._known.add(id(storage))
        weakref.finalize(storage, self._forget, id(storage), numbers)

    def _forget(self, key: int, numbers: int) -> None:
        self.now -= numbers
        self._known.discard(key)


def numbers_held(compute: Callable[[], Any]) -> int:
    with Held() as held:
        result = compute()
    del result
    return held.most
