"""Metric compatibility and inverse consistency of transports as the walk uses them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import dense_reference as naive
from conwalk.connection import ConnectionWalk, HeadTransports
from conwalk.connection.compatibility import largest_rank, moments, square_sums
from conwalk.connection.inverse import cross_gram, inverse_defects
from conwalk.metrics import LayerData, compatibility, inverse
from walk_cases import WalkCase, make_case, walk_cases


def _normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _orthogonal(n: int, seed: int = 0) -> Tensor:
    return torch.linalg.qr(_normal(n, n, seed=seed)).Q


def _walk(attention: Tensor, *maps: Tensor) -> ConnectionWalk:
    """A walk whose heads have these square maps."""
    eye = torch.eye(maps[0].shape[0], dtype=torch.float64).expand(len(maps), -1, -1)
    return ConnectionWalk(attention, torch.stack(maps), eye)


def _compatibility(walk: ConnectionWalk, step: int | None = None) -> dict[str, float]:
    """The metric from blocks of ``step`` rows."""
    metric, n = compatibility.METRIC, walk.n_queries
    x = torch.zeros(walk.n_keys, walk.transports.width_in, dtype=walk.dtype)
    blocks = []
    for first in range(0, n, step or n):
        rows = slice(first, first + (step or n))
        gate = None if walk.output_gate is None else walk.output_gate[:, rows]
        part = ConnectionWalk.from_transports(
            walk.attention[:, rows],
            walk.transports,
            value_scale=walk.value_scale,
            output_gate=gate,
        )
        y = torch.zeros(part.codomain, dtype=walk.dtype)
        blocks.append(metric.compute(LayerData(part, x, y, first)))
    joined = {name: torch.cat([b[name] for b in blocks], -1) for name in blocks[0]}
    return {name: float(value) for name, value in metric.finish(joined).items()}


def _edges(case: WalkCase) -> list[tuple[float, np.ndarray]]:
    """Weight and transport of every present edge."""
    weights = case.attention.mean(0).numpy()
    return [
        (
            weights[i, j],
            naive.edge_map(case.attention, case.W_V, case.W_O, i, j, case.value_scale)
            / weights[i, j],
        )
        for i, j in np.argwhere(weights != 0)
    ]


@given(walk_cases(gate=False).filter(lambda c: bool((c.attention >= 0).all())), st.integers(1, 3))
def test_the_defect_is_the_naive_sum_whole_or_in_blocks(case: WalkCase, step: int):
    edges, rank = _edges(case), largest_rank(case.walk)
    second = sum(w * (T**2).sum() for w, T in edges)
    fourth = sum(w * ((T.T @ T) ** 2).sum() for w, T in edges)
    apart = sum(w * (T**2).sum() ** 2 for w, T in edges) / rank
    weight = sum(w for w, _ in edges)
    for found in (_compatibility(case.walk), _compatibility(case.walk, step)):
        if weight == 0:
            assert found["metric_defect"] == found["metric_shape_defect"] == 1
            continue
        kept = second**2 / (rank * weight * fourth)
        assert found["metric_defect"] == pytest.approx(1 - kept, abs=1e-10)
        assert found["metric_shape_defect"] == pytest.approx(1 - apart / fourth, abs=1e-10)
        assert found["transport_scale"] ** 2 == pytest.approx(second / rank / weight, rel=1e-10)
        assert -1e-12 <= found["metric_shape_defect"] <= found["metric_defect"] + 1e-12


@given(walk_cases(gate=False).filter(lambda c: bool((c.attention >= 0).all())))
def test_square_sums_are_the_second_moments(case: WalkCase):
    size = float(square_sums(case.sizes.walk).max())
    naive.assert_close(square_sums(case.walk), moments(case.walk).second, 64, size)


@given(walk_cases(gate=False, square=True), st.integers(0, 99))
def test_the_defect_is_the_distance_to_the_nearest_scaled_projections(case: WalkCase, seed: int):
    """Where rank bound and width agree the projections are the identity, and s is free."""
    if largest_rank(case.walk) != case.walk.transports.width_in:
        return
    if not bool((case.attention > 0).all()):
        return
    edges = _edges(case)
    one = np.eye(case.W_V.shape[1])
    grams = [(w, T @ T.T) for w, T in edges]
    size = sum(w * (G**2).sum() for w, G in grams)

    def apart(square: float) -> float:
        return sum(w * ((G - square * one) ** 2).sum() for w, G in grams) / size

    found = _compatibility(case.walk)
    best = found["transport_scale"] ** 2
    assert found["metric_defect"] == pytest.approx(apart(best), abs=1e-10)
    assert apart(best) <= min(apart(best * 1.01), apart(best * 0.99)) + 1e-12


@pytest.mark.parametrize("scale", [0.2, 1.0, 30.0])
def test_isometries_of_one_scale_have_no_defect(scale: float):
    attention = torch.softmax(_normal(2, 5, 5), -1)
    turned = _orthogonal(4)
    # T is the sum of the heads' maps where they are equal
    for heads in (1, 2):
        found = _compatibility(_walk(attention[:heads], *[scale * turned] * heads))
        assert abs(found["metric_defect"]) <= 1e-12
        assert found["transport_scale"] == pytest.approx(scale * heads)


def test_a_partial_isometry_counts_on_its_own_subspace():
    basis = _orthogonal(6)[:, :2]
    attention = torch.softmax(_normal(1, 4, 4), -1)
    walk = ConnectionWalk(attention, basis[None], 3 * _orthogonal(6, 1)[None, :2])
    assert abs(_compatibility(walk)["metric_defect"]) <= 1e-12
    assert _compatibility(walk)["transport_scale"] == pytest.approx(3)


def test_heads_that_share_a_value_head_share_its_rank():
    basis, out = _orthogonal(6)[:, :2], _orthogonal(6, 1)[:2]
    attention = torch.softmax(_normal(2, 4, 4), -1)
    walk = ConnectionWalk(attention, basis[None], torch.stack([out, out]))
    assert largest_rank(walk) == 2
    assert abs(_compatibility(walk)["metric_defect"]) <= 1e-12


def test_unequal_scales_are_a_defect_that_a_scale_for_each_edge_takes_away():
    """Two heads with one isometry in two sizes, each alone on its edges."""
    turned = _orthogonal(3)
    attention = torch.zeros(2, 2, 2, dtype=torch.float64)
    attention[0, 0], attention[1, 1] = 0.5, 0.5
    one = torch.eye(3, dtype=torch.float64)
    found = _compatibility(ConnectionWalk(attention, turned[None], torch.stack([one, 2 * one])))
    assert abs(found["metric_shape_defect"]) <= 1e-12
    # sizes 2 and 4 after division by P = A/2; squares in the ratio 1 to 4
    assert found["metric_defect"] == pytest.approx(1 - 2.5**2 / 8.5)


def test_stretch_and_lost_rank_are_defects():
    attention = torch.softmax(_normal(1, 3, 3), -1)
    stretched = torch.diag(torch.tensor([1.0, 2.0]).double())
    assert _compatibility(_walk(attention, stretched))["metric_defect"] == pytest.approx(
        1 - 25 / (2 * 17)
    )
    lost = torch.diag(torch.tensor([1.0, 0.0]).double())
    assert _compatibility(_walk(attention, lost))["metric_defect"] == pytest.approx(0.5)
    nothing = _compatibility(_walk(attention, 0 * lost))
    assert (nothing["metric_defect"], nothing["transport_scale"]) == (1, 0)


@pytest.mark.parametrize(("heads", "group"), [(4, 1), (2, 2), (1, 4)])
def test_chance_is_what_gaussian_heads_have(heads: int, group: int):
    case = make_case(heads=heads, group=group, width_in=64, width_out=64, value=16, bias=False)
    found = []
    for seed in range(12):
        W_V = _normal(*case.W_V.shape, seed=2 * seed + 1)
        W_O = _normal(*case.W_O.shape, seed=2 * seed + 2)
        found.append(_compatibility(ConnectionWalk(case.attention, W_V, W_O)))
    observed = np.mean([f["metric_defect"] for f in found])
    assert observed == pytest.approx(found[0]["metric_defect_chance"], abs=0.02)


def test_a_gated_walk_has_no_closed_form():
    found = _compatibility(make_case(gate=True).walk)
    assert all(map(math.isnan, found.values()))


@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(1, 6), st.integers(0, 999)
)
def test_cross_gram_is_naive(heads: int, group: int, width: int, value: int, seed: int):
    case = make_case(
        heads, group, width_in=width, width_out=width, value=value, bias=False, seed=seed
    )
    maps = naive.head_maps(case.W_V, case.W_O)
    found = cross_gram(HeadTransports(case.W_V, case.W_O))
    sizes = naive.head_maps(case.W_V.abs(), case.W_O.abs())
    size = float(np.einsum("hab,gba->hg", sizes, sizes).max())
    naive.assert_close(found, np.einsum("hab,gba->hg", maps, maps), width * value, size)


@given(walk_cases(square=True, gate=False).filter(lambda c: bool((c.attention >= 0).all())))
def test_inverse_defects_are_naive(case: WalkCase):
    weights, n = case.attention.mean(0).numpy(), len(case.x)

    def transport(i: int, j: int) -> np.ndarray:
        whole = naive.edge_map(case.attention, case.W_V, case.W_O, i, j, case.value_scale)
        return whole / weights[i, j]

    def mean(pairs: list[tuple[int, int]]) -> float:
        total = sum(weights[i, j] for i, j in pairs)
        parts = [
            weights[i, j]
            * ((transport(j, i) - transport(i, j).T) ** 2).sum()
            / ((transport(j, i) ** 2).sum() + (transport(i, j) ** 2).sum())
            for i, j in pairs
        ]
        return sum(parts) / total if pairs else math.nan

    there = [(i, j) for i in range(n) for j in range(n) if weights[i, j] and weights[j, i]]
    found = inverse_defects(case.walk)
    wanted = mean([(i, j) for i, j in there if i != j])
    assert found.pairs == pytest.approx(wanted, abs=1e-10, nan_ok=True)
    assert found.loops == pytest.approx(
        mean([e for e in there if e[0] == e[1]]), abs=1e-10, nan_ok=True
    )


def test_reflections_undo_themselves_and_rotations_do_not():
    attention = torch.softmax(_normal(1, 4, 4), -1)
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]]).double()
    mirror = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double()
    assert max(inverse_defects(_walk(attention, mirror))) <= 1e-12
    assert inverse_defects(_walk(attention, turn)) == pytest.approx((2, 2))
    # a turn by 45 degrees: 1 - cos 90
    assert inverse_defects(_walk(attention, (turn + torch.eye(2)) / 2)) == pytest.approx((1, 1))


def test_a_causal_walk_only_has_its_loops():
    case = make_case(kind="causal")
    found = inverse_defects(case.walk)
    assert math.isnan(found.pairs)
    assert 0 <= found.loops <= 2


def test_maps_of_nothing_undo_each_other():
    case = make_case(bias=False)
    assert inverse_defects(case.change(W_O=0 * case.W_O).walk) == (0, 0)


@pytest.mark.parametrize(
    "kinds", [{"keys": 3}, {"width_out": 3}, {"gate": True}, {"kind": "signed"}]
)
def test_what_has_no_edges_back_is_not_judged(kinds: dict[str, object]):
    case = make_case(**kinds)
    found = inverse.METRIC.compute(LayerData(case.walk, case.x, case.y))
    assert set(found) == {q.name for q in inverse.METRIC.quantities}
    assert all(math.isnan(value) for value in found.values())


def test_one_negative_weight_makes_a_walk_signed():
    case = make_case()
    assert not any(map(math.isnan, inverse_defects(case.walk)))
    case.attention[0, 1, 2] = -1e-3
    assert all(map(math.isnan, inverse_defects(case.walk)))


@given(walk_cases(gate=False, square=True), st.integers(0, 99))
def test_gauge_permutation_and_basis_move_nothing(case: WalkCase, seed: int):
    group, heads = case.group, len(case.W_V)
    order = torch.randperm(heads, generator=torch.Generator().manual_seed(seed))
    spread = (order[:, None] * group + torch.arange(group)).flatten()
    R, turn = _orthogonal(case.W_V.shape[2], seed) * 2, _orthogonal(case.W_V.shape[1], seed)
    moved = ConnectionWalk(
        case.attention[spread],
        turn.T @ case.W_V[order] @ R,
        torch.linalg.solve(R, case.W_O[spread]) @ turn,
        value_scale=None if case.value_scale is None else case.value_scale[spread],
    )
    still, other = _compatibility(case.walk), _compatibility(moved)
    if bool((case.attention >= 0).all()):
        assert other == pytest.approx(still, abs=1e-9)
    found, wanted = inverse_defects(moved), inverse_defects(case.walk)
    assert found == pytest.approx(wanted, abs=1e-9, nan_ok=True)
