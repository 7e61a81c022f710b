"""Memory: a walk is applied through its factors, and no transport exists unless asked for."""

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from conwalk.connection import (
    ConnectionWalk,
    HeadTransports,
    edge_effective_ranks,
    edge_square_norms,
)


class _Held(TorchDispatchMode):
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


def _numbers_held(compute: Callable[[], Any]) -> int:
    with _Held() as held:
        result = compute()
    del result
    return held.most


def test_the_measure_counts_what_is_held_at_a_time():
    def one_after_the_other() -> None:
        for _ in range(3):
            torch.zeros(100)

    assert _numbers_held(one_after_the_other) == 100
    assert _numbers_held(lambda: [torch.zeros(100) for _ in range(3)]) == 300
    assert _numbers_held(lambda: torch.zeros(100).view(10, 10).mT) == 100


HEADS, TOKENS, WIDTH, VALUE = 4, 64, 512, 8
FIELD = TOKENS * WIDTH
PARTS = HEADS * TOKENS**2 + TOKENS * HEADS * VALUE + WIDTH * HEADS * VALUE


def _arrays(heads: int = HEADS, tokens: int = TOKENS, width: int = WIDTH, value: int = VALUE):
    generator = torch.Generator().manual_seed(0)
    attention = torch.rand(heads, tokens, tokens, generator=generator).tril()
    W_V = torch.randn(heads, width, value, generator=generator)
    return attention, W_V, torch.randn(heads, value, width, generator=generator)


def test_building_and_applying_stay_within_the_parts_and_the_output():
    arrays, x = _arrays(), torch.ones(TOKENS, WIDTH)
    bound = PARTS + FIELD
    # A transport, or mixing tokens before values are made, would break the bound.
    assert bound < WIDTH**2
    assert bound < HEADS * FIELD
    assert _numbers_held(lambda: ConnectionWalk(*arrays) @ x) <= bound
    assert _numbers_held(lambda: ConnectionWalk(*arrays).H @ x) <= bound
    assert _numbers_held(lambda: ConnectionWalk(*arrays).gate_field("norm")) <= 3 * PARTS


def test_scales_and_gates_stay_within_the_bound():
    scale, gate = torch.rand(HEADS, TOKENS), torch.rand(HEADS, TOKENS, VALUE)
    x = torch.ones(TOKENS, WIDTH)
    walk = ConnectionWalk(*_arrays(), value_scale=scale, output_gate=gate)
    assert _numbers_held(lambda: walk @ x) <= PARTS + FIELD
    assert _numbers_held(lambda: walk.H @ x) <= PARTS + FIELD


def test_a_transport_that_is_asked_for_breaks_the_bound():
    walk = ConnectionWalk(*_arrays())
    assert _numbers_held(lambda: walk.transport(1, 0)) > PARTS + FIELD


def test_attention_is_not_repeated_over_a_batch():
    attention, W_V, W_O = _arrays(tokens=256, width=4, value=2)
    walk = ConnectionWalk(attention, W_V, W_O)
    batch = torch.ones(8, 256, 4)
    assert _numbers_held(lambda: walk @ batch) < attention.numel()
    assert _numbers_held(lambda: walk.H @ batch) < attention.numel()


def test_maps_are_views_of_the_weights_of_a_linear_layer():
    weight_V, weight_O = torch.randn(HEADS * VALUE, WIDTH), torch.randn(WIDTH, HEADS * VALUE)
    transports = HeadTransports(
        weight_V.unflatten(0, (HEADS, VALUE)).mT, weight_O.mT.unflatten(0, (HEADS, VALUE))
    )
    assert transports.value_columns.data_ptr() == weight_V.data_ptr()
    assert transports.output_rows.data_ptr() == weight_O.data_ptr()


@pytest.mark.parametrize("kv_heads", [1, 4, 8])
def test_quartic_holds_a_few_times_its_products(kv_heads: int):
    heads, value = 8, 32
    products = heads**2 * value**2
    _, W_V, W_O = _arrays(heads, width=48, value=value)
    transports = HeadTransports(W_V[:kv_heads], W_O)
    assert 6 * products < heads**3 * value**2
    assert _numbers_held(transports.quartic) <= 6 * products + 3 * heads**4


@pytest.mark.parametrize("measure", [edge_effective_ranks, edge_square_norms])
def test_edges_are_measured_in_chunks(measure: Any, monkeypatch: pytest.MonkeyPatch):
    attention, W_V, W_O = _arrays(heads=8, width=16, value=2)
    walk = ConnectionWalk(attention, W_V, W_O)
    walk.transports.gram()
    walk.transports.quartic()
    whole = _numbers_held(lambda: measure(walk))
    monkeypatch.setattr("conwalk.connection.edges._CHUNK", 4096)
    parts = _numbers_held(lambda: measure(walk))
    assert parts < 2 * attention.numel()
    assert whole > 2 * parts
