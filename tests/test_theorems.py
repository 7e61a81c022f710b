"""Theorems: their residuals vanish on every walk, and show what is wrong where it is."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given

from conwalk import theorems, tolerance
from conwalk.connection import ConnectionWalk
from conwalk.connection.edge_transports import EdgeTransports
from conwalk.operators import Adjoint
from conwalk.theorems.theorem import ratio, worst_row
from dense_reference import assert_close
from walk_cases import WalkCase, make_case, walk_cases


@given(walk_cases())
@pytest.mark.parametrize("theorem", theorems.ALL, ids=lambda theorem: theorem.name)
def test_theorems_hold(theorem: theorems.Theorem, case: WalkCase):
    assert theorem.holds(case.walk, case.x)


@given(walk_cases())
def test_one_walk_holds_in_the_other_weighting(case: WalkCase):
    bound = theorems.one_walk.THEOREM.bound(case.walk)
    assert theorems.one_walk.residual(case.walk, case.x, weighting="norm") <= bound


@pytest.mark.parametrize("theorem", theorems.ALL, ids=lambda theorem: theorem.name)
def test_single_precision_is_tested_in_double(theorem: theorems.Theorem):
    walk = make_case(group=2, scale=True, gate=True).walk.to(dtype=torch.float32)
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    assert theorem.holds(walk, x)


def test_records_say_what_and_where():
    names = [theorem.name for theorem in theorems.ALL]
    assert len(set(names)) == len(names)
    assert all(theorem.statement and theorem.reference for theorem in theorems.ALL)


def _shifted(function: Any) -> Any:
    return lambda *args, **kwargs: function(*args, **kwargs) + 1e-6


@pytest.mark.parametrize("method", ["walk_matrix", "gate_field", "transport", "transport_affine"])
def test_one_walk_sees_a_wrong_part(method: str, monkeypatch: pytest.MonkeyPatch):
    case = make_case()
    monkeypatch.setattr(EdgeTransports, method, _shifted(getattr(EdgeTransports, method)))
    assert not theorems.one_walk.THEOREM.holds(case.walk, case.x)


def test_one_walk_sees_edges_that_cancel():
    case = make_case(heads=2, queries=1, keys=1)
    walk = case.change(attention=torch.tensor([[[1.0]], [[-1.0]]]).double()).walk
    assert theorems.one_walk.residual(walk, case.x) > theorems.one_walk.THEOREM.bound(walk)


def test_one_walk_without_edges_is_exact():
    case = make_case()
    walk = case.change(attention=torch.zeros_like(case.attention)).walk
    assert theorems.one_walk.residual(walk, case.x) == 0.0
    assert theorems.one_walk.residual(case.walk, case.x, samples=0) <= 1e-14


@pytest.mark.parametrize("theorem", theorems.ALL, ids=lambda theorem: theorem.name)
def test_theorems_see_a_wrong_step(theorem: theorems.Theorem, monkeypatch: pytest.MonkeyPatch):
    apply = ConnectionWalk._apply

    def wrong(walk: ConnectionWalk, x: torch.Tensor) -> torch.Tensor:
        """Not linear in the heads, nor free of the gauge."""
        return apply(walk, x) + 1e-6 * walk.transports.W_O[0, 0] * (1 + walk.n_heads)

    monkeypatch.setattr(ConnectionWalk, "_apply", wrong)
    case = make_case()
    assert not theorem.holds(case.walk, case.x)


def test_adjoint_sees_a_wrong_adjoint(monkeypatch: pytest.MonkeyPatch):
    def wrong(walk: ConnectionWalk) -> Adjoint:
        return Adjoint(walk, lambda y: walk._apply_back(y) * (1 + 1e-6))

    monkeypatch.setattr(ConnectionWalk, "_adjoint", wrong)
    case = make_case()
    assert not theorems.adjoint.THEOREM.holds(case.walk, case.x)


def test_gauge_changes_the_factors_and_not_the_maps():
    walk = make_case(group=2).walk
    moved = theorems.gauge.change(walk, seed=3)
    assert float((moved.transports.W_V - walk.transports.W_V).abs().min()) > 1e-4
    for head in range(walk.n_heads):
        assert_close(moved.transports.matrix(head), walk.transports.matrix(head), 25)
    other = theorems.gauge.change(walk, seed=4)
    assert not torch.equal(other.transports.W_V, moved.transports.W_V)


def test_reconstruction_is_the_worst_row_over_the_typical_row():
    observed = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    rebuilt = torch.tensor([[3.0, 4.0], [0.0, 0.5]])
    expected = 0.5 / (25 / 2) ** 0.5
    assert theorems.reconstruction.residual(rebuilt, observed) == pytest.approx(expected, rel=1e-15)
    assert theorems.reconstruction_residual is theorems.reconstruction.residual
    batch = rebuilt.bfloat16().expand(2, 3, 2, 2), observed.bfloat16().expand(2, 3, 2, 2)
    assert theorems.reconstruction_residual(*batch) == pytest.approx(expected, rel=1e-15)


def test_reconstruction_of_nothing_and_of_broken_numbers():
    nothing, one = torch.zeros(2, 3), torch.ones(2, 3)
    broken = one * torch.nan
    assert theorems.reconstruction_residual(nothing, nothing) == 0.0
    assert theorems.reconstruction_residual(one, nothing) == float("inf")
    assert theorems.reconstruction_residual(broken, one) == float("inf")
    assert theorems.reconstruction_residual(one, broken) == float("inf")
    assert theorems.reconstruction_residual(one * torch.inf, one) == float("inf")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_reconstruction_is_bounded_by_the_tolerance_of_the_dtype(dtype: torch.dtype):
    assert theorems.reconstruction.bound(dtype) == tolerance.reconstruction(dtype)


def test_a_walk_reconstructs_itself_in_single_precision():
    case = make_case(queries=16, keys=16, width_in=32, width_out=32, value=8)
    single = case.walk.to(dtype=torch.float32)(case.x.float())
    found = theorems.reconstruction_residual(single, case.walk(case.x).float())
    assert 0 < found <= theorems.reconstruction.bound(torch.float32)


@pytest.mark.parametrize(
    ("difference", "size", "expected"),
    [
        (0.0, 0.0, 0.0),
        (1.0, 0.0, float("inf")),
        (1.0, 4.0, 0.25),
        (float("nan"), 1.0, float("inf")),
        (0.0, float("inf"), float("inf")),
    ],
)
def test_ratios_can_be_compared_with_a_bound(difference: float, size: float, expected: float):
    assert ratio(difference, size) == expected


def test_worst_row():
    difference = torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    assert worst_row(difference, torch.tensor([1.0, 7.0])) == 1.0


def test_a_theorem_is_as_good_as_its_residual():
    case = make_case()
    theorem = replace(theorems.ALL[0], residual=lambda walk, x: float("inf"))
    assert not theorem.holds(case.walk, case.x)
