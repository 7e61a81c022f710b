"""Eigenvalues, norm and normality of walks, against dense matrices and known answers."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import dense_reference as naive
from conwalk.connection import ConnectionWalk
from conwalk.connection.kronecker import kronecker_factors, kronecker_spectrum
from conwalk.connection.normality import (
    departure_from_normality,
    frobenius_square,
    square_moduli,
    trace_square,
)
from conwalk.errors import ShapeError
from conwalk.metrics import LayerData
from conwalk.metrics.spectrum import METRICS, NORMALITY, SPECTRUM
from conwalk.operators import krylov
from group_walks import (
    flat_transports,
    group_walk,
    matching_distance,
    random_frames,
    reversible_kernel,
    twist,
)
from walk_cases import WalkCase, make_case, walk_cases

CLOSE = 1e-8


def _dense(case: WalkCase) -> np.ndarray:
    return naive.dense_walk(case.attention, case.W_V, case.W_O, **case.extras)


def _measure(walk: ConnectionWalk) -> dict[str, float]:
    data = LayerData(walk, torch.zeros(walk.domain).double(), torch.zeros(walk.codomain).double())
    return {
        name: float(value)
        for metric in METRICS
        for name, value in metric.finish(metric.compute(data)).items()
    }


@given(walk_cases())
def test_frobenius_norm_from_gram_matrices(case: WalkCase):
    expected = np.square(_dense(case)).sum()
    assert abs(frobenius_square(case.walk) - expected) < CLOSE * max(1.0, expected)


@given(walk_cases(square=True, gate=False))
def test_trace_of_the_square_from_small_matrices(case: WalkCase):
    dense = _dense(case)
    scale = max(1.0, np.square(dense).sum())
    assert abs(trace_square(case.walk) - np.trace(dense @ dense)) < CLOSE * scale


@given(walk_cases(square=True))
def test_departure_is_what_the_eigenvalues_leave(case: WalkCase):
    dense = _dense(case)
    total = np.square(dense).sum()
    moduli = np.square(np.abs(np.linalg.eigvals(dense))).sum()
    found = departure_from_normality(case.walk)
    assert found.value is not None
    # A defective eigenvalue is sensitive, its square less so.
    assert abs(found.value**2 * total - (total - moduli)) < 1e-6 * max(1.0, total)
    assert 0 <= found.value <= 1
    assert (found.bound is None) == (case.output_gate is not None)
    # rounding is in the squares: the root of it is far larger
    assert found.bound is None or found.value**2 <= found.bound**2 + CLOSE


def test_departure_of_normal_and_nilpotent_walks():
    one = torch.eye(2).double()[None]
    zero = ConnectionWalk(torch.eye(3).double()[None], 0 * one, one)
    normal = ConnectionWalk(torch.eye(3).double()[None].roll(1, -1), one, one)
    shift = ConnectionWalk(torch.ones(3, 3).double().tril(-1)[None], one, one)
    for walk, value in ((zero, 0.0), (normal, 0.0), (shift, 1.0)):
        assert departure_from_normality(walk).value == pytest.approx(value, abs=1e-7)


def test_a_spectrum_out_of_reach_leaves_the_bound(monkeypatch: Any):
    monkeypatch.setattr("conwalk.connection.normality.DENSE", 3)
    walk = make_case().walk
    assert square_moduli(walk) is None
    found = departure_from_normality(walk)
    assert found.value is None
    assert found.bound is not None
    assert math.isnan(_measure(walk)["normality_departure"])


@given(walk_cases(square=True, gate=False), st.integers(0, 8))
def test_a_head_has_the_products_of_two_spectra(case: WalkCase, head: int):
    head %= len(case.W_O)
    walk = case.walk.heads[head]
    scale = 1.0 if case.value_scale is None else case.value_scale[head].numpy()
    attention = case.attention[head].numpy() * scale
    matrix = naive.head_maps(case.W_V, case.W_O)[head]
    of_tokens, of_map = kronecker_factors(walk)
    size = max(1.0, np.linalg.norm(attention), np.linalg.norm(matrix))
    assert matching_distance(of_tokens, np.linalg.eigvals(attention)) < 1e-6 * size
    assert matching_distance(of_map, np.linalg.eigvals(matrix)) < 1e-6 * size
    products = np.multiply.outer(np.linalg.eigvals(attention), np.linalg.eigvals(matrix))
    assert matching_distance(kronecker_spectrum(walk), products) < 1e-6 * size**2
    dense = np.kron(attention, matrix.T)
    assert np.allclose(dense, walk.to_dense(), rtol=0, atol=CLOSE * size**2)


def test_a_causal_head_has_the_diagonal_of_its_attention():
    case = make_case(kind="causal", heads=1, scale=True)
    assert case.value_scale is not None
    diagonal = case.attention[0].diagonal() * case.value_scale[0]
    of_tokens, _ = kronecker_factors(case.walk)
    assert torch.equal(of_tokens, diagonal.cdouble())


@pytest.mark.parametrize(
    "walk",
    [make_case().walk, make_case(heads=1, gate=True).walk, make_case(heads=1, queries=3).walk],
)
def test_what_is_no_kronecker_product_is_refused(walk: ConnectionWalk):
    with pytest.raises(ShapeError, match="Kronecker"):
        kronecker_spectrum(walk)


def test_closed_forms_need_a_square_plain_walk():
    for case in (make_case(gate=True), make_case(queries=3)):
        with pytest.raises(ShapeError, match="closed form"):
            trace_square(case.walk)
    with pytest.raises(ShapeError, match="no eigenvalues"):
        square_moduli(make_case(queries=3).walk)


@given(walk_cases(square=True))
def test_the_metric_says_what_the_dense_matrix_says(case: WalkCase):
    dense, found = _dense(case), _measure(case.walk)
    moduli = np.sort(np.abs(np.linalg.eigvals(dense)))[::-1]
    norm = np.linalg.norm(dense, 2)
    steps = np.sort(np.abs(np.linalg.eigvals(case.walk.walk_matrix().numpy())))[::-1]
    close = 1e-5 * max(1.0, norm)
    assert abs(found["operator_norm"] - norm) < CLOSE * max(1.0, norm)
    assert abs(found["spectral_radius"] - moduli[0]) < close
    if norm > 0:
        abscissa = np.linalg.eigvalsh((dense + dense.T) / 2)[-1]
        assert abs(found["numerical_abscissa_share"] - abscissa / norm) < CLOSE
        assert abs(found["spectral_radius_share"] * norm - moduli[0]) < close
    if len(moduli) > 1 and moduli[0] > 1e-3 * norm:
        gap = 1 - moduli[1] / moduli[0]
        assert abs(found["connection_gap"] - gap) * moduli[0] < close
    if len(steps) > 1 and steps[0] > 1e-3:
        assert abs(found["walk_gap"] - (1 - steps[1] / steps[0])) * steps[0] < 1e-5
    assert math.isnan(found["spectral_radius_token"]) == (not case.walk.is_causal)


@given(walk_cases())
def test_every_quantity_keeps_its_bounds(case: WalkCase):
    found = _measure(case.walk)
    quantities = {q.name: q for metric in METRICS for q in metric.quantities}
    assert found.keys() == quantities.keys()
    for name, value in found.items():
        low, high = quantities[name].bounds
        assert math.isnan(value) or math.isfinite(value)
        assert math.isnan(value) or low is None or value >= low
        assert math.isnan(value) or high is None or value <= high


def test_rectangular_walks_have_a_norm_alone():
    case = make_case(queries=3)
    found = _measure(case.walk)
    known = {name for name, value in found.items() if not math.isnan(value)}
    assert known == {"operator_norm"}
    assert abs(found["operator_norm"] - np.linalg.norm(_dense(case), 2)) < CLOSE


def test_uniform_rows_and_one_token():
    case = make_case(width_in=3, width_out=3)
    uniform = ConnectionWalk(torch.full((3, 4, 4), 0.25).double(), case.W_V, case.W_O)
    total = naive.head_maps(case.W_V, case.W_O).sum(0)
    radius = np.abs(np.linalg.eigvals(total)).max()
    found = _measure(uniform)
    assert found["walk_gap"] == pytest.approx(1.0)
    assert found["spectral_radius"] == pytest.approx(radius)
    assert found["operator_norm"] == pytest.approx(np.linalg.norm(total, 2))
    single = _measure(ConnectionWalk(torch.ones(3, 1, 1).double(), case.W_V, case.W_O))
    assert single["spectral_radius"] == pytest.approx(radius)
    assert (single["walk_gap"], single["spectral_radius_token"]) == (1.0, 0.0)


def test_a_zero_walk_and_one_number():
    one = torch.ones(1, 1, 1).double()
    zero = _measure(ConnectionWalk(one, 0 * one, one))
    assert zero["spectral_radius"] == zero["normality_departure"] == 0.0
    assert zero["spectral_radius_share"] == zero["numerical_abscissa_share"] == 0.0
    number = _measure(ConnectionWalk(one, -3 * one, one))
    assert number["spectral_radius"] == number["operator_norm"] == 3.0
    assert (number["numerical_abscissa_share"], number["connection_gap"]) == (-1.0, 1.0)


def test_the_leading_token_is_named():
    case = make_case(kind="causal", queries=6, keys=6)
    attention = case.attention * torch.tensor([1.0, 1, 1, 9, 1, 1]).double()
    found = _measure(ConnectionWalk(attention, case.W_V, case.W_O))
    assert found["spectral_radius_token"] == 3.0


def test_what_did_not_converge_is_not_guessed(monkeypatch: Any):
    none = krylov.Eigenpairs(
        torch.zeros(0).cdouble(), torch.zeros(0, 4, 5).cdouble(), torch.zeros(0).double(), False
    )
    monkeypatch.setattr("conwalk.metrics.spectrum.eigenpairs", lambda *_: none)
    monkeypatch.setattr("conwalk.metrics.spectrum.symmetric_eigenpairs", lambda *_: none)
    found = _measure(make_case().walk)
    for name in ("spectral_radius", "walk_gap", "connection_gap", "numerical_abscissa_share"):
        assert math.isnan(found[name])
    assert found["operator_norm"] > 0


def _generator_spectrum(walk: ConnectionWalk, scale: float = 1.0) -> np.ndarray:
    return np.linalg.eigvals(walk.generator(scale).to_dense().numpy())


@given(st.integers(2, 6), st.integers(0, 999), st.floats(0.1, 2.0))
def test_generators_of_reversible_orthogonal_walks(n_tokens: int, seed: int, size: float):
    kernel = reversible_kernel(n_tokens, seed)
    transports = flat_transports(random_frames(n_tokens, seed))
    flat = _generator_spectrum(group_walk(kernel, transports))
    assert np.abs(flat.imag).max() < 1e-6
    assert flat.real.min() > -CLOSE
    assert flat.real.max() < 2 + CLOSE
    assert int((np.abs(flat) < 1e-6).sum()) == 3
    scaled = _generator_spectrum(group_walk(kernel, transports, size))
    assert scaled.real.min() > 1 - size - CLOSE
    assert scaled.real.max() < 1 + size + CLOSE
    assert abs(scaled.real.min() - (1 - size)) < 1e-6
    assert (
        matching_distance(_generator_spectrum(group_walk(kernel, transports, size), size), flat)
        < 1e-6
    )


@given(st.integers(3, 6), st.integers(0, 999))
def test_a_twisted_triangle_takes_zeros_away(n_tokens: int, seed: int):
    kernel = reversible_kernel(n_tokens, seed)
    twisted = twist(flat_transports(random_frames(n_tokens, seed)), 0, 2)
    spectrum = _generator_spectrum(group_walk(kernel, twisted))
    # A swap of two axes keeps the other axis and the sum of the two.
    assert int((np.abs(spectrum) < 1e-6).sum()) == 2
    assert spectrum.real.min() > -CLOSE
    assert spectrum.real.max() < 2 + CLOSE


def _turn(size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(size, size, generator=generator).double()).Q


@given(walk_cases(square=True, gate=False), st.integers(0, 99))
def test_neither_gauge_nor_residual_basis_is_seen(case: WalkCase, seed: int):
    inner, outer = _turn(case.W_V.shape[2], seed), _turn(case.W_V.shape[1], seed + 1)
    moved = case.change(W_V=outer.mT @ case.W_V @ inner, W_O=inner.mT @ case.W_O @ outer)
    one, other = _measure(case.walk), _measure(moved.walk)
    for name in ("operator_norm", "spectral_radius", "numerical_abscissa_share"):
        assert other[name] == pytest.approx(one[name], rel=1e-5, abs=1e-6)
    assert other["normality_departure"] == pytest.approx(one["normality_departure"], abs=1e-4)


def test_both_are_asked_for_by_name():
    assert [metric.name for metric in METRICS] == ["spectrum", "normality"]
    assert not SPECTRUM.default
    assert not NORMALITY.default
