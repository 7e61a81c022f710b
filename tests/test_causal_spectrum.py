"""The spectrum of a causal walk is that of its diagonal blocks, found from small matrices."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dense_reference as naive
from conwalk.connection import ConnectionWalk
from conwalk.connection import causal_spectrum as spectrum
from conwalk.connection.causal_spectrum import DiagonalCores, causal_leading, causal_spectrum
from conwalk.errors import SelectionError, ShapeError
from conwalk.pipeline import capture_layer
from group_walks import matching_distance
from walk_cases import WalkCase, make_case

CLOSE = 1e-8


@st.composite
def causal_cases(draw: Any, gate: bool | None = None) -> WalkCase:
    tokens, width = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    return make_case(
        heads=draw(st.integers(1, 3)),
        group=draw(st.integers(1, 3)),
        queries=tokens,
        keys=tokens,
        width_in=width,
        width_out=width,
        value=draw(st.integers(1, 6)),
        kind="causal",
        scale=draw(st.booleans()),
        gate=draw(st.booleans()) if gate is None else gate,
        seed=draw(st.integers(0, 2**16)),
    )


def _blocks(case: WalkCase) -> list[np.ndarray]:
    return [
        naive.edge_map(case.attention, case.W_V, case.W_O, i, i, **case.extras)
        for i in range(case.attention.shape[1])
    ]


def _size(case: WalkCase) -> float:
    return max(1.0, *(np.linalg.norm(block) for block in _blocks(case)))


@given(causal_cases())
def test_each_token_has_the_eigenvalues_of_its_diagonal_block(case: WalkCase):
    found = causal_spectrum(case.walk)
    width = case.walk.transports.width_in
    core = min(width, len(case.W_V) * case.W_V.shape[2])
    assert found.values.shape == (case.walk.n_keys, core)
    assert found.zeros == width - core
    for values, block in zip(found.padded, _blocks(case), strict=True):
        assert matching_distance(values, np.linalg.eigvals(block)) < CLOSE * _size(case)


@given(causal_cases())
def test_power_sums_are_traces_of_the_whole_matrix(case: WalkCase):
    # Eigenvalues of the whole matrix are too sensitive to compare; the traces of its powers
    # fix them and are not.
    dense = _dense(case)
    size = np.linalg.norm(dense, 2)
    values = causal_spectrum(case.walk).values.numpy() / size
    for power in range(1, 6):
        trace = np.trace(np.linalg.matrix_power(dense / size, power))
        assert abs((values**power).sum() - trace) < CLOSE


def _dense(case: WalkCase) -> np.ndarray:
    return naive.dense_walk(case.attention, case.W_V, case.W_O, **case.extras)


def test_the_whole_matrix_has_these_eigenvalues():
    case = make_case(kind="causal", queries=3, keys=3, width_in=3, width_out=3)
    found = causal_spectrum(case.walk).padded
    assert matching_distance(found, np.linalg.eigvals(_dense(case))) < CLOSE


@given(causal_cases(), st.integers(1, 25))
def test_leading_eigenvalues_are_the_largest_of_all(case: WalkCase, count: int):
    everything = causal_spectrum(case.walk)
    count = min(count, everything.padded.numel())
    found = causal_leading(case.walk, count)
    wanted = everything.padded.abs().flatten().sort(descending=True).values[:count]
    assert torch.allclose(found.values.abs(), wanted, rtol=0, atol=CLOSE * _size(case))
    for value, token in zip(found.values, found.tokens, strict=True):
        distance = (everything.padded[token] - value).abs().min()
        assert value == 0 or distance < CLOSE * _size(case)


def test_tokens_that_cannot_lead_are_not_solved(monkeypatch: Any):
    case = make_case(kind="causal", queries=12, keys=12, width_in=8, width_out=8, seed=3)
    radii = causal_spectrum(case.walk).radii
    solved = []
    solve = torch.linalg.eigvals
    monkeypatch.setattr(torch.linalg, "eigvals", lambda core: solved.append(1) or solve(core))
    found = causal_leading(case.walk)
    assert found.tokens.tolist() == [int(radii.argmax())]
    assert 1 <= len(solved) <= 3


@pytest.mark.parametrize(("size", "looked_at"), [(250.0, 4), (100.0, 1)])
def test_norms_of_powers_rule_out_what_norms_do_not(size: float, looked_at: int, monkeypatch: Any):
    # token 0 has 200 times the identity; the others a nilpotent block of this norm
    eye = torch.eye(2).double()
    maps = torch.stack([200 * eye, torch.tensor([[0.0, size], [0.0, 0.0]]).double()])
    attention = torch.stack([torch.diag(torch.arange(4) == 0), torch.diag(torch.arange(4) > 0)])
    walk = ConnectionWalk(attention.double(), maps, eye.expand(2, 2, 2))
    solved, looked = [], []
    solve, may_exceed = torch.linalg.eigvals, spectrum._may_exceed
    monkeypatch.setattr(torch.linalg, "eigvals", lambda core: solved.append(1) or solve(core))
    monkeypatch.setattr(
        spectrum, "_may_exceed", lambda *core: looked.append(1) or may_exceed(*core)
    )
    assert causal_leading(walk, 2).values.tolist() == [200, 200]
    assert (len(solved), len(looked)) == (1, looked_at)


def test_a_shared_value_head_makes_the_matrix_small():
    case = make_case(kind="causal", heads=2, group=3, width_in=12, width_out=12, value=2)
    cores = DiagonalCores(case.walk)
    assert (cores.size, cores.width, len(cores)) == (4, 12, 4)
    assert cores[1].shape == (4, 4)


def test_identity_attention_gives_every_token_the_sum_of_the_heads():
    case = make_case(queries=3, keys=3)
    eye = torch.eye(3).double().expand(3, 3, 3)
    walk = ConnectionWalk(eye, case.W_V, case.W_O)
    total = naive.head_maps(case.W_V, case.W_O).sum(0)
    for values in causal_spectrum(walk).padded:
        assert matching_distance(values, np.linalg.eigvals(total)) < CLOSE


def test_a_walk_that_is_zero_has_only_zeros():
    case = make_case(kind="causal")
    walk = ConnectionWalk(case.attention, 0 * case.W_V, case.W_O)
    assert not causal_spectrum(walk).padded.any()
    assert not causal_leading(walk, 20).values.any()


@pytest.mark.parametrize(
    "case", [make_case(), make_case(queries=3), make_case(kind="causal", width_out=4)]
)
def test_walks_that_are_not_causal_are_refused(case: WalkCase):
    with pytest.raises(ShapeError, match="is not causal"):
        causal_spectrum(case.walk)


@pytest.mark.parametrize("count", [0, 21])
def test_as_many_as_there_are(count: int):
    with pytest.raises(SelectionError, match="has 20 eigenvalues"):
        causal_leading(make_case(kind="causal").walk, count)


@settings(max_examples=15)
@given(causal_cases(gate=False))
def test_a_gauge_changes_nothing(case: WalkCase):
    turn = torch.randn(
        len(case.W_V), *(case.W_V.shape[2],) * 2, generator=torch.Generator().manual_seed(1)
    ).double()
    turn = torch.linalg.qr(turn).Q
    back = turn.mT.repeat_interleave(case.group, 0)
    moved = case.change(W_V=case.W_V @ turn, W_O=back @ case.W_O)
    one, other = (causal_spectrum(each.walk).padded for each in (case, moved))
    for left, right in zip(one, other, strict=True):
        assert matching_distance(left, right) < CLOSE * _size(case)


def test_six_tokens_of_a_trained_decoder(smollm: Any):
    layer = capture_layer(smollm, "The lighthouse keeper counted the ships", 12, max_length=6)
    walk = layer.walk.to(dtype=torch.float64)
    found = causal_spectrum(walk)
    assert (found.values.shape, found.zeros) == ((6, 192), 384)
    for token in range(6):
        block = naive.edge_map(
            walk.attention, walk.transports.W_V, walk.transports.W_O, token, token
        )
        assert matching_distance(found.padded[token], np.linalg.eigvals(block)) < CLOSE
    leading = causal_leading(walk, 4)
    assert torch.equal(
        leading.values.abs(), found.values.abs().flatten().sort().values[-4:].flip(0)
    )
