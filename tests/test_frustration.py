"""Frustration: 0 exactly for flat connections, bounded from both sides otherwise."""

import math
from itertools import permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg
from torch import Tensor

import dense_reference as naive
from conwalk.connection import ConnectionWalk
from conwalk.connection.frustration import frustration, gauge_frustration
from conwalk.connection.symmetrised import ConnectionGraph, symmetrise
from conwalk.errors import SelectionError, ShapeError
from conwalk.metrics import LayerData
from conwalk.metrics.curvature import FRUSTRATION, METRICS
from group_walks import (
    causal,
    flat_transports,
    group_walk,
    random_frames,
    reversible_kernel,
    twist,
)
from walk_cases import WalkCase, make_case, walk_cases

CLOSE = 1e-9


def _orthogonal(count: int, size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(count, size, size, generator=generator).double()).Q


def _random_graph(n_tokens: int, rank: int, seed: int) -> ConnectionGraph:
    """Unrelated rotations on the edges of a random graph."""
    weights = torch.rand(n_tokens, n_tokens, generator=torch.Generator().manual_seed(seed))
    weights = (weights.double() * (weights > 0.2)).triu(1)
    turns = _orthogonal(n_tokens**2, rank, seed).unflatten(0, (n_tokens, n_tokens))
    rotations = (turns * (weights > 0)[..., None, None]).clone()
    for i, j in (weights > 0).nonzero().tolist():
        rotations[j, i] = rotations[i, j].mT
    return ConnectionGraph(weights + weights.mT, rotations)


@pytest.mark.parametrize("kind", ["plain", "causal", "leaking", "signed", "holes"])
@pytest.mark.parametrize("constant", [False, True])
def test_edges_are_averaged_in_both_directions(kind: str, constant: bool):
    case = make_case(
        queries=5, keys=5, width_in=3, width_out=3, kind=kind, scale=True, group=2, seed=4
    )
    graph = symmetrise(case.walk, constant=constant)
    steps = naive.walk_matrix(case.attention, torch.full((6,), 1 / 6).double())
    np.fill_diagonal(steps, 0.0)
    maps = {
        (i, j): naive.edge_map(case.attention, case.W_V, case.W_O, i, j, case.value_scale)
        for i, j in permutations(range(5), 2)
    }
    mean = sum(maps.values()) * np.sign(steps.sum())
    assert np.allclose(graph.weights, (np.abs(steps) + np.abs(steps.T)) / 2)
    for i, j in maps:
        there, back = (maps[edge] * np.sign(steps[edge]) for edge in ((i, j), (j, i)))
        if constant:
            there, back = mean * abs(steps[i, j]), mean * abs(steps[j, i])
        wanted = linalg.polar(there + back.T)[0] if steps[i, j] or steps[j, i] else 0.0
        assert np.allclose(graph.rotations[i, j], wanted)
        assert torch.equal(graph.rotations[j, i], graph.rotations[i, j].mT)


@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 999))
def test_leading_eigenvalues_of_the_normalised_adjacency(n_tokens: int, rank: int, seed: int):
    graph = _random_graph(n_tokens, rank, seed)
    dense = np.zeros((n_tokens, rank, n_tokens, rank))
    degrees = graph.weights.sum(1)
    for i, j in product(range(n_tokens), repeat=2):
        if graph.weights[i, j]:
            weight = graph.weights[i, j] / (degrees[i] * degrees[j]).sqrt()
            # y_i = Σ_j w x_j O_ij for rows is O_ijᵀ for columns
            dense[i, :, j, :] = weight * graph.rotations[i, j].mT
    dense = dense.reshape(n_tokens * rank, -1)
    wanted = np.linalg.eigvalsh(dense)[::-1]
    count = min(3, len(wanted))
    values, fields = graph.leading(count)
    flat = fields.flatten(1).numpy()
    assert np.allclose(values, wanted[:count])
    assert np.allclose(dense @ flat.T, flat.T * values.numpy())
    assert np.allclose(flat @ flat.T, np.eye(count))
    assert wanted[0] < 1 + CLOSE


def test_the_iterative_solution_is_the_dense_one(monkeypatch: pytest.MonkeyPatch):
    graph = _random_graph(12, 3, 0)
    values, _ = graph.leading(4)
    monkeypatch.setattr("conwalk.connection.symmetrised._DENSE", 1)
    monkeypatch.setattr("conwalk.connection.symmetrised.linalg", None)
    iterated, fields = graph.leading(4)
    assert torch.allclose(values, iterated)
    assert fields.shape == (4, 12, 3)


@given(st.integers(2, 8), st.integers(0, 999), st.booleans(), st.floats(0.1, 9.0))
def test_a_flat_connection_has_none(n_tokens: int, seed: int, masked: bool, size: float):
    kernel = reversible_kernel(n_tokens, seed)
    frames = random_frames(n_tokens, seed)
    walk = group_walk(causal(kernel) if masked else kernel, flat_transports(frames), size)
    graph = symmetrise(walk)
    found = frustration(graph)
    assert found.rank == 3
    assert found.value < CLOSE
    assert found.bound < CLOSE
    assert int((graph.leading(min(3 * n_tokens, 6))[0] > 1 - 1e-7).sum()) == 3
    # its gauge is the one that the connection was made from, up to one turn for all tokens
    turns = found.gauge @ frames.mT
    assert torch.allclose(turns, turns[:1].expand_as(turns), atol=1e-6)


@given(st.integers(3, 8), st.integers(0, 999))
def test_a_twisted_edge_frustrates(n_tokens: int, seed: int):
    kernel = reversible_kernel(n_tokens, seed)
    twisted = twist(flat_transports(random_frames(n_tokens, seed)), 0, 2)
    graph = symmetrise(group_walk(kernel, twisted))
    found = frustration(graph)
    assert found.bound > 1e-6
    assert found.bound <= found.value + CLOSE
    # leaving the edge twisted costs 2/3 of its share of the weight
    frames = random_frames(n_tokens, seed)
    share = float(2 * graph.weights[0, 2] / graph.weights.sum())
    assert gauge_frustration(graph, frames) == pytest.approx(2 / 3 * share)
    assert found.value <= 2 / 3 * share + CLOSE


@given(st.integers(2, 7), st.integers(1, 3), st.integers(0, 999))
def test_bounds_of_unrelated_rotations(n_tokens: int, rank: int, seed: int):
    graph = _random_graph(n_tokens, rank, seed)
    found = frustration(graph)
    smallest = 1 - graph.leading(rank)[0]
    assert torch.allclose(found.eigenvalues, smallest.clamp(0, 2))
    if not graph.weights.any():
        assert math.isnan(found.value)
        assert math.isnan(found.bound)
        return
    assert found.bound == pytest.approx(float(smallest.clamp(0, 2).mean()))
    assert 0 <= found.bound <= found.value + CLOSE <= 2 + CLOSE
    eye = torch.eye(rank).double()
    assert torch.allclose(found.gauge @ found.gauge.mT, eye.expand(n_tokens, rank, rank))
    for trial in range(5):
        any_gauge = _orthogonal(n_tokens, rank, seed + trial)
        assert gauge_frustration(graph, any_gauge) >= found.bound - CLOSE


@given(st.integers(2, 6), st.integers(1, 3), st.integers(0, 999))
def test_frustration_of_a_gauge_is_its_energy(n_tokens: int, rank: int, seed: int):
    graph = _random_graph(n_tokens, rank, seed)
    gauge = _orthogonal(n_tokens, rank, seed + 1)
    energy, total = 0.0, rank * float(graph.weights.sum())
    for i, j in permutations(range(n_tokens), 2):
        apart = gauge[i] - gauge[j] @ graph.rotations[i, j]
        energy += float(graph.weights[i, j] * apart.square().sum()) / 2
    found = gauge_frustration(graph, gauge)
    assert math.isnan(found) if total == 0 else found == pytest.approx(energy / total)


def test_signs_on_a_triangle_by_hand():
    # three tokens that all disagree: one of three edges must give in
    weights = torch.ones(3, 3).double().fill_diagonal_(0.0)
    signs = -weights[..., None, None]
    found = frustration(ConnectionGraph(weights, signs))
    assert found.value == pytest.approx(2 / 3)
    assert found.bound == pytest.approx(1 / 2)


def test_the_spectral_gauge_alone_flattens_what_is_flat(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("conwalk.connection.frustration._SWEEPS", 0)
    walk = group_walk(reversible_kernel(7, 3), flat_transports(random_frames(7, 3)))
    assert frustration(symmetrise(walk)).value < CLOSE


def test_sweeps_better_the_rounded_gauge(monkeypatch: pytest.MonkeyPatch):
    graph = _random_graph(10, 3, 1)
    improved = frustration(graph)
    monkeypatch.setattr("conwalk.connection.frustration._SWEEPS", 0)
    assert improved.value < frustration(graph).value - 1e-4


@given(st.integers(0, 99), st.sampled_from([2, 5]))
def test_neither_gauge_nor_basis_nor_order_of_heads_is_seen(seed: int, rank: int):
    case = make_case(seed=seed, heads=4)
    inner, outer = _orthogonal(1, 2, seed)[0], _orthogonal(1, 5, seed + 1)[0]
    order = torch.tensor([2, 0, 3, 1])
    moved = case.change(
        attention=case.attention[order],
        W_V=(outer.mT @ case.W_V @ inner)[order],
        W_O=(inner.mT @ case.W_O @ outer)[order],
    )
    one, other = (frustration(symmetrise(each.walk, rank=rank)) for each in (case, moved))
    assert torch.allclose(one.eigenvalues, other.eigenvalues, atol=1e-7)
    assert other.value == pytest.approx(one.value, abs=1e-5)


def test_what_makes_no_sense_is_refused():
    for case in (make_case(gate=True), make_case(queries=3)):
        with pytest.raises(ShapeError, match="common subspace"):
            symmetrise(case.walk)
    for count in (0, 21):
        with pytest.raises(SelectionError, match="20 eigenvalues"):
            symmetrise(make_case().walk).leading(count)


def _measure(walk: ConnectionWalk) -> dict[str, float]:
    data = LayerData(walk, torch.zeros(walk.domain).double(), torch.zeros(walk.codomain).double())
    return {name: float(value) for name, value in FRUSTRATION.compute(data).items()}


@given(walk_cases())
def test_the_metric_is_in_bounds_or_not_defined(case: WalkCase):
    found = _measure(case.walk)
    assert list(found) == [quantity.name for quantity in FRUSTRATION.quantities]
    plain = case.walk.is_square and case.output_gate is None
    for value in found.values():
        assert math.isnan(value) or (plain and 0 <= value <= 2)


def test_the_metric_sets_the_mean_transport_beside():
    walk = make_case().walk
    own, constant = (frustration(symmetrise(walk, constant=c)) for c in (False, True))
    assert own.bound != constant.bound
    assert list(_measure(walk).values()) == pytest.approx([own.value, own.bound, constant.bound])
    assert [metric.name for metric in METRICS] == ["holonomy", "frustration"]
    assert not FRUSTRATION.default
