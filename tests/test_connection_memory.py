"""Memory: a walk is applied through its factors, and no transport exists unless asked for."""

from typing import Any

import pytest
import torch

from conwalk.connection import (
    ConnectionWalk,
    HeadTransports,
    edge_effective_ranks,
    edge_square_norms,
)
from held_memory import numbers_held


def test_the_measure_counts_what_is_held_at_a_time():
    def one_after_the_other() -> None:
        for _ in range(3):
            torch.zeros(100)

    assert numbers_held(one_after_the_other) == 100
    assert numbers_held(lambda: [torch.zeros(100) for _ in range(3)]) == 300
    assert numbers_held(lambda: torch.zeros(100).view(10, 10).mT) == 100


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
    assert numbers_held(lambda: ConnectionWalk(*arrays) @ x) <= bound
    assert numbers_held(lambda: ConnectionWalk(*arrays).H @ x) <= bound
    assert numbers_held(lambda: ConnectionWalk(*arrays).gate_field("norm")) <= 3 * PARTS


def test_scales_and_gates_stay_within_the_bound():
    scale, gate = torch.rand(HEADS, TOKENS), torch.rand(HEADS, TOKENS, VALUE)
    x = torch.ones(TOKENS, WIDTH)
    walk = ConnectionWalk(*_arrays(), value_scale=scale, output_gate=gate)
    assert numbers_held(lambda: walk @ x) <= PARTS + FIELD
    assert numbers_held(lambda: walk.H @ x) <= PARTS + FIELD


def test_a_transport_that_is_asked_for_breaks_the_bound():
    walk = ConnectionWalk(*_arrays())
    assert numbers_held(lambda: walk.transport(1, 0)) > PARTS + FIELD


def test_attention_is_not_repeated_over_a_batch():
    attention, W_V, W_O = _arrays(tokens=256, width=4, value=2)
    walk = ConnectionWalk(attention, W_V, W_O)
    batch = torch.ones(8, 256, 4)
    assert numbers_held(lambda: walk @ batch) < attention.numel()
    assert numbers_held(lambda: walk.H @ batch) < attention.numel()


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
    assert numbers_held(transports.quartic) <= 6 * products + 3 * heads**4


@pytest.mark.parametrize("measure", [edge_effective_ranks, edge_square_norms])
def test_edges_are_measured_in_chunks(measure: Any, monkeypatch: pytest.MonkeyPatch):
    attention, W_V, W_O = _arrays(heads=8, width=16, value=2)
    walk = ConnectionWalk(attention, W_V, W_O)
    walk.transports.gram()
    walk.transports.quartic()
    whole = numbers_held(lambda: measure(walk))
    monkeypatch.setattr("conwalk.connection.edges._CHUNK", 4096)
    parts = numbers_held(lambda: measure(walk))
    assert parts < 2 * attention.numel()
    assert whole > 2 * parts
