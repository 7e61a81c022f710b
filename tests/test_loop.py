"""Holonomy around triangles: 0 for flat connections, seen where an edge is twisted."""

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg
from torch import Tensor

import dense_reference as naive
from conwalk.connection import ConnectionWalk
from conwalk.connection.loop import (
    Holonomy,
    all_triangles,
    draw_triangles,
    holonomy_defect,
    triangle_holonomy,
)
from conwalk.connection.reduced import ReducedConnection, principal_subspace
from conwalk.connection.rotations import polar_factor
from conwalk.errors import SelectionError, ShapeError
from conwalk.metrics import LayerData
from conwalk.metrics.curvature import HOLONOMY
from group_walks import (
    GROUP,
    causal,
    flat_transports,
    group_walk,
    random_frames,
    reversible_kernel,
    twist,
)
from walk_cases import WalkCase, make_case, walk_cases

CLOSE = 1e-9


def _naive_holonomy(case: WalkCase) -> tuple[float, float]:
    """Mean defect and constant baseline, triangle by triangle, on the whole space."""
    _, n_tokens, _ = case.attention.shape
    edges: dict[tuple[int, int], np.ndarray] = {}
    weights = np.zeros((n_tokens, n_tokens))
    total = 0.0
    for i, j in permutations(range(n_tokens), 2):
        weights[i, j] = float(case.attention[:, i, j].mean())
        step = naive.edge_map(case.attention, case.W_V, case.W_O, i, j, case.value_scale)
        total = total + step
        if weights[i, j]:
            edges[i, j] = linalg.polar(step / weights[i, j])[0]
    mass, sum_of_defects = 0.0, 0.0
    for i, j, k in permutations(range(n_tokens), 3):
        weight = abs(weights[i, j] * weights[j, k] * weights[i, k])
        if weight:
            around = edges[j, k] @ edges[i, j]
            defect = 1 - np.trace(around.T @ edges[i, k]) / len(around)
            sum_of_defects, mass = sum_of_defects + weight * defect, mass + weight
    mean = linalg.polar(total * (1 if weights.sum() >= 0 else -1))[0]
    return sum_of_defects / mass, 1 - np.trace((mean @ mean).T @ mean) / len(mean)


@pytest.mark.parametrize("kind", ["plain", "causal", "leaking", "signed", "holes"])
@pytest.mark.parametrize("scale", [False, True])
def test_all_triangles_as_a_loop_over_dense_transports(kind: str, scale: bool):
    # three heads of value width 2 in width 3: transports of full rank
    case = make_case(
        queries=6, keys=6, width_in=3, width_out=3, kind=kind, scale=scale, group=2, seed=4
    )
    found = triangle_holonomy(case.walk)
    defect, constant = _naive_holonomy(case)
    assert found.rank == 3
    assert found.standard_error == 0.0
    assert found.defect == pytest.approx(defect, abs=CLOSE)
    assert found.constant == pytest.approx(constant, abs=CLOSE)
    assert found.excess == pytest.approx(defect - constant, abs=CLOSE)


@given(st.integers(3, 8), st.integers(0, 999), st.booleans(), st.floats(0.1, 9.0))
def test_a_flat_connection_has_none(n_tokens: int, seed: int, masked: bool, size: float):
    kernel = reversible_kernel(n_tokens, seed)
    transports = flat_transports(random_frames(n_tokens, seed))
    walk = group_walk(causal(kernel) if masked else kernel, transports, size)
    assert triangle_holonomy(walk).defect < CLOSE


@given(st.integers(3, 7), st.integers(0, 999), st.booleans())
def test_a_twisted_edge_is_seen(n_tokens: int, seed: int, masked: bool):
    kernel = reversible_kernel(n_tokens, seed)
    twisted = twist(flat_transports(random_frames(n_tokens, seed)), 2, 0)
    steps = causal(kernel) if masked else kernel
    found = triangle_holonomy(group_walk(steps, twisted))
    triangles = all_triangles(steps)
    i, j, k = triangles.T
    weights = steps[i, j] * steps[j, k] * steps[i, k]
    holding = torch.stack(
        [((a == 2) & (b == 0)) | ((a == 0) & (b == 2)) for a, b in ((i, j), (j, k), (i, k))]
    ).any(0)
    # a swap of two of three axes has trace 1, so the defect is 2/3
    expected = 2 / 3 * float((weights * holding).sum() / weights.sum())
    assert found.triangles == len(triangles)
    assert found.defect == pytest.approx(expected, abs=CLOSE)


def test_a_constant_rotation_is_its_own_baseline():
    turned = GROUP[3].expand(5, 5, 3, 3)  # a turn of three axes: U² and U share no entry
    found = triangle_holonomy(group_walk(reversible_kernel(5), turned))
    assert found.defect == pytest.approx(1.0)
    assert found.constant == pytest.approx(1.0)
    assert found.excess == pytest.approx(0.0)


def test_no_triangle_no_holonomy():
    for walk in (
        make_case(queries=2, keys=2).walk,
        make_case(queries=1, keys=1).walk,
        ConnectionWalk(torch.eye(5).double()[None], *(torch.eye(2).double()[None],) * 2),
    ):
        found = triangle_holonomy(walk)
        assert math.isnan(found.defect)
        assert math.isnan(found.standard_error)
        assert found.triangles == 0


def test_transports_that_carry_nothing_are_not_compared():
    case = make_case(queries=5, keys=5)
    found = triangle_holonomy(ConnectionWalk(case.attention, 0 * case.W_V, case.W_O))
    assert math.isnan(found.defect)
    assert math.isnan(found.constant)
    assert found.triangles == 60


def test_samples_estimate_the_whole_within_their_error():
    case = make_case(queries=12, keys=12, width_in=3, width_out=3, seed=2)
    whole = triangle_holonomy(case.walk, triangles=10_000)
    assert whole.standard_error == 0.0
    assert whole.triangles == 12 * 11 * 10
    scores = []
    for seed in range(60):
        part = triangle_holonomy(case.walk, triangles=200, seed=seed)
        assert part.triangles == 200
        scores.append((part.defect - whole.defect) / part.standard_error)
    assert abs(np.mean(scores)) < 0.5
    assert 0.75 < np.std(scores) < 1.3
    again = triangle_holonomy(case.walk, triangles=200, seed=3)
    assert again == triangle_holonomy(case.walk, triangles=200, seed=3)
    assert again != triangle_holonomy(case.walk, triangles=200, seed=4)


def test_triangles_are_drawn_by_their_weight():
    weights = reversible_kernel(5, 1, edges=0.7)
    listed = all_triangles(weights)
    i, j, k = listed.T
    shares = weights[i, j] * weights[j, k] * weights[i, k]
    drawn = draw_triangles(weights, 40_000, seed=0)
    codes = drawn @ torch.tensor([25, 5, 1])
    counts = torch.bincount(codes, minlength=125)
    found = counts[listed @ torch.tensor([25, 5, 1])] / 40_000
    assert int(counts.sum()) == int((found * 40_000).round().sum())
    assert float((found - shares / shares.sum()).abs().max()) < 0.01


def test_triangles_of_a_causal_graph_go_forward():
    listed = all_triangles(causal(reversible_kernel(5)))
    assert sorted(map(tuple, listed.tolist())) == [
        (i, j, k) for i in range(5) for j in range(i) for k in range(j)
    ]
    drawn = draw_triangles(causal(reversible_kernel(5)), 100, seed=0)
    assert bool((drawn.diff(dim=1) < 0).all())


@given(st.integers(1, 5), st.integers(0, 99))
def test_defects_of_opposite_and_equal_ways(size: int, seed: int):
    generator = torch.Generator().manual_seed(seed)
    first, second = polar_factor(torch.randn(2, size, size, generator=generator).double())
    assert float(holonomy_defect(first, second, first @ second)) < CLOSE
    assert float(holonomy_defect(first, second, -(first @ second))) == pytest.approx(2.0)
    assert math.isnan(float(holonomy_defect(first, second, 0 * first)))


def test_polar_factors_keep_directions_and_drop_sizes():
    matrix = torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(0)).double()
    for one in matrix:
        assert np.allclose(polar_factor(one), linalg.polar(one.numpy())[0])
    assert torch.allclose(polar_factor(1e-12 * matrix), polar_factor(matrix))
    flat = torch.tensor([[2.0, 0, 0], [0, 0, 0], [0, -1e-3, 0]]).double()
    assert torch.allclose(polar_factor(flat), flat.sign())
    assert not polar_factor(torch.zeros(2, 3, 3).double()).any()


@given(walk_cases(square=True, gate=False), st.integers(1, 5))
def test_the_subspace_leads_what_heads_read_and_write(case: WalkCase, rank: int):
    maps = naive.head_maps(case.W_V, case.W_O)
    moment = sum(m @ m.T + m.T @ m for m in maps)
    basis = principal_subspace(case.walk.transports, rank).numpy()
    width = len(moment)
    assert basis.shape == (width, min(rank, width))
    assert np.allclose(basis.T @ basis, np.eye(basis.shape[1]))
    kept = np.trace(basis.T @ moment @ basis)
    wanted = np.linalg.eigvalsh(moment)[::-1][:rank].sum()
    assert abs(kept - wanted) < CLOSE * max(1.0, wanted)


def test_steps_are_compressed_transports():
    case = make_case(scale=True, group=2)
    connection = ReducedConnection(case.walk, 3)
    basis = principal_subspace(case.walk.transports, 3).numpy()
    total = 0.0
    for i, j in permutations(range(4), 2):
        edge = naive.edge_map(case.attention, case.W_V, case.W_O, i, j, case.value_scale)
        step = connection.steps(torch.tensor([i]), torch.tensor([j]))[0]
        assert np.allclose(step, basis.T @ edge @ basis)
        total = total + basis.T @ edge @ basis
    assert np.allclose(connection.mean_step(), total)


def _turn(size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(size, size, generator=generator).double()).Q


@given(st.integers(0, 99), st.sampled_from([2, 5]))
def test_neither_gauge_nor_basis_nor_order_of_heads_is_seen(seed: int, rank: int):
    case = make_case(seed=seed, heads=4)
    inner, outer = _turn(2, seed), _turn(5, seed + 1)
    order = torch.tensor([2, 0, 3, 1])
    moved = case.change(
        attention=case.attention[order],
        W_V=(outer.mT @ case.W_V @ inner)[order],
        W_O=(inner.mT @ case.W_O @ outer)[order],
    )
    one, other = (triangle_holonomy(each.walk, rank=rank) for each in (case, moved))
    assert other.defect == pytest.approx(one.defect, abs=1e-7)
    assert other.constant == pytest.approx(one.constant, abs=1e-7)


def test_walks_and_ranks_that_make_no_sense_are_refused():
    for case in (make_case(gate=True), make_case(queries=3), make_case(width_out=3)):
        with pytest.raises(ShapeError, match="common subspace"):
            triangle_holonomy(case.walk)
    with pytest.raises(ShapeError, match="no common subspace"):
        principal_subspace(make_case(width_out=3).walk.transports)
    with pytest.raises(SelectionError, match="rank 0"):
        triangle_holonomy(make_case().walk, rank=0)


def _measure(walk: ConnectionWalk) -> dict[str, float]:
    data = LayerData(walk, torch.zeros(walk.domain).double(), torch.zeros(walk.codomain).double())
    return {name: float(value) for name, value in HOLONOMY.compute(data).items()}


@given(walk_cases())
def test_the_metric_is_in_bounds_or_not_defined(case: WalkCase):
    found = _measure(case.walk)
    assert list(found) == [quantity.name for quantity in HOLONOMY.quantities]
    plain = case.walk.is_square and case.output_gate is None
    for quantity in HOLONOMY.quantities:
        low, high = quantity.bounds
        value = found[quantity.name]
        assert not math.isinf(value)
        assert math.isnan(value) or (plain and low is not None and value >= low)
        assert math.isnan(value) or high is None or value <= high
    assert not HOLONOMY.default


def test_the_metric_gives_what_was_found(monkeypatch: Any):
    found = Holonomy(0.7, 0.01, 0.2, 9, 8)
    monkeypatch.setattr("conwalk.metrics.curvature.triangle_holonomy", lambda _: found)
    assert list(_measure(make_case().walk).values()) == pytest.approx([0.7, 0.01, 0.2, 0.5])
