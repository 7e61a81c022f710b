"""Every edge at once: norms and effective ranks agree with written out transports."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conwalk.connection import edge_effective_ranks, edge_square_norms
from conwalk.connection.edges import fold_gram, fold_quartic
from conwalk.errors import ShapeError
from conwalk.theorems import gauge
from dense_reference import assert_close, edge_map
from walk_cases import WalkCase, make_case, walk_cases


def _terms(case: WalkCase) -> int:
    return (case.attention.numel() + case.W_V.numel() + case.W_O.numel()) * len(case.W_O)


def _head_sizes(case: WalkCase, i: int, j: int) -> float:
    """Sizes of what the heads do along an edge, added up: heads may cancel, rounding stays."""
    scale = torch.ones_like(case.attention[:, 0]) if case.value_scale is None else case.value_scale
    value = torch.linalg.matrix_norm(case.W_V).repeat_interleave(case.group)
    output = torch.linalg.matrix_norm(case.W_O)
    return float((case.attention[:, i, j].abs() * scale[:, j] * value * output).sum())


@given(walk_cases(gate=False), st.sampled_from(["uniform", "norm"]))
def test_square_norms(case: WalkCase, weighting: str):
    found = edge_square_norms(case.walk, weighting)
    steps = case.walk.walk_matrix(weighting)
    assert torch.equal(found.isnan(), steps == 0)
    for i, j in steps.nonzero().tolist():
        edge = edge_map(case.attention, case.W_V, case.W_O, i, j, case.value_scale)
        step = float(steps[i, j])
        wanted = np.array((np.linalg.norm(edge) / step) ** 2)
        assert_close(found[i, j], wanted, _terms(case), (_head_sizes(case, i, j) / step) ** 2)


@given(walk_cases(gate=False))
def test_effective_ranks(case: WalkCase):
    found = edge_effective_ranks(case.walk)
    for i, j in np.ndindex(*found.shape):
        if not case.attention[:, i, j].any():
            assert found[i, j].isnan()
            continue
        edge = edge_map(case.attention, case.W_V, case.W_O, i, j, case.value_scale)
        squares = np.linalg.svd(edge, compute_uv=False) ** 2
        wanted = squares.sum() ** 2 / (squares**2).sum()
        # Heads that nearly cancel leave less than the terms of which the sums are made.
        lost = (_head_sizes(case, i, j) / np.linalg.norm(edge)) ** 4
        assert_close(found[i, j], np.array(wanted), _terms(case), lost * wanted**2)


def test_ranks_of_a_scaled_projection_are_its_rank():
    case = make_case(heads=1, value=3, width_in=5, width_out=5, kind="causal", bias=False)
    frame = torch.linalg.qr(case.W_V).Q
    walk = case.change(W_V=2.0 * frame, W_O=frame.mT.contiguous()).walk
    ranks = edge_effective_ranks(walk)
    lower = torch.ones(4, 4).tril().bool()
    assert_close(ranks[lower], torch.full((10,), 3.0).double(), 25)
    assert bool(ranks[~lower].isnan().all())


def test_tiny_weights_do_not_underflow():
    case = make_case(heads=2)
    single = case.walk.to(dtype=torch.float32)
    attention = case.attention.float()
    attention[:, 1, 2] *= 1e-30
    tiny = type(single).from_transports(attention, single.transports)
    difference = edge_effective_ranks(tiny) / edge_effective_ranks(single) - 1
    assert float(difference.abs().max()) < 1e-4


def test_heads_that_cancel_have_no_rank():
    case = make_case(heads=1, group=2, queries=1, keys=1, bias=False)
    walk = case.change(
        attention=torch.ones(2, 1, 1).double(), W_O=torch.cat([case.W_O[:1], -case.W_O[:1]])
    ).walk
    assert edge_square_norms(walk).tolist() == [[0.0]]
    assert edge_effective_ranks(walk).isnan().all()


def test_values_scaled_to_nothing_have_norm_0_and_no_rank():
    case = make_case(scale=True)
    assert case.value_scale is not None
    scale = case.value_scale.clone()
    scale[:, 1] = 0.0
    walk = case.change(value_scale=scale).walk
    assert not edge_square_norms(walk)[:, 1].any()
    assert edge_effective_ranks(walk)[:, 1].isnan().all()
    assert edge_effective_ranks(walk)[:, 0].isfinite().all()


def test_chunks_are_invisible(monkeypatch: pytest.MonkeyPatch):
    walk = make_case(kind="causal", queries=9, keys=9).walk
    whole = edge_effective_ranks(walk), edge_square_norms(walk, "norm")
    monkeypatch.setattr("conwalk.connection.edges._CHUNK", 7)
    parts = edge_effective_ranks(walk), edge_square_norms(walk, "norm")
    for one, many in zip(whole, parts, strict=True):
        assert_close(many.nan_to_num(), one.nan_to_num(), 9)


@given(walk_cases(gate=False), st.integers(0, 2**16))
def test_gauge_moves_no_edge(case: WalkCase, seed: int):
    moved = gauge.change(case.walk, seed)
    found, wanted = (edge_square_norms(walk) for walk in (moved, case.walk))
    for i, j in wanted.isfinite().nonzero().tolist():
        size = (_head_sizes(case, i, j) / float(case.walk.walk_matrix()[i, j])) ** 2
        assert_close(found[i, j], wanted[i, j], _terms(case), size)


def test_half_precision_is_measured_in_float32():
    walk = make_case(group=2).walk.to(dtype=torch.bfloat16)
    single = walk.to(dtype=torch.float32)
    assert edge_effective_ranks(walk).dtype == torch.float32
    assert torch.equal(edge_effective_ranks(walk), edge_effective_ranks(single))
    assert edge_square_norms(walk).dtype == torch.float32


@given(st.integers(1, 5), st.integers(0, 2**16))
def test_folding_keeps_the_forms(heads: int, seed: int):
    generator = np.random.default_rng(seed)
    gram = generator.standard_normal((heads, heads))
    quartic = generator.standard_normal((heads,) * 4)
    a = generator.standard_normal(heads)
    pairs = np.array([a[h] * a[g] for h in range(heads) for g in range(h, heads)])
    folded = fold_gram(torch.from_numpy(gram)).numpy()
    double = fold_quartic(torch.from_numpy(quartic)).numpy()
    size = np.abs(a).sum() ** 4 * np.abs(quartic).max() + np.abs(a).sum() ** 2
    assert_close(
        np.array([folded @ pairs, pairs @ double @ pairs, size]),
        np.array([a @ gram @ a, np.einsum("h,g,p,q,hgpq", a, a, a, a, quartic), size]),
        heads**4,
    )


@pytest.mark.parametrize("ask", [edge_square_norms, edge_effective_ranks])
def test_an_output_gate_has_no_closed_form(ask):
    with pytest.raises(ShapeError, match="output gate"):
        ask(make_case(gate=True).walk)
