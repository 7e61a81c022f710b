"""The energy ledger: an identity, its terms, and what they say of known walks."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import dense_reference as naive
from conwalk.connection import ConnectionWalk
from conwalk.connection.ledger import alignment, balance, fitted_inverse_scale, token_balance
from conwalk.connection.row_energies import head_energies, row_energies
from conwalk.metrics import LayerData, Metric, ledger
from walk_cases import WalkCase, make_case, walk_cases

ALL = (ledger.METRIC, ledger.FITTED, ledger.TOKENS, ledger.HEADS, ledger.STATIONARY)


def _normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _unsigned(case: WalkCase) -> bool:
    return bool((case.attention >= 0).all())


cases = walk_cases(square=True, gate=False).filter(_unsigned)


def _naive(case: WalkCase, t: float, mu: np.ndarray) -> tuple[float, ...]:
    """Total and the four terms, edge by edge."""
    x, n = case.x.numpy(), len(case.x)
    P = case.attention.mean(0).numpy()
    energy = sum(mu[i] * x[i] @ x[i] for i in range(n))
    terms = np.zeros(5)
    nu = mu @ P
    for i in range(n):
        terms[0] += mu[i] * x[i] @ x[i]
        terms[2] += (mu[i] - nu[i]) * x[i] @ x[i] / 2
        terms[4] += mu[i] * (1 - P[i].sum()) * x[i] @ x[i] / 2
        for j in range(n):
            if P[i, j] == 0:
                continue
            whole = naive.edge_map(case.attention, case.W_V, case.W_O, i, j, case.value_scale)
            moved = t * x[j] @ whole / P[i, j]
            terms[0] -= mu[i] * P[i, j] * x[i] @ moved
            terms[1] += mu[i] * P[i, j] * ((x[i] - moved) ** 2).sum() / 2
            terms[3] += mu[i] * P[i, j] * (x[j] @ x[j] - moved @ moved) / 2
    return tuple(terms / energy)


def _measure(metric: Metric, case: WalkCase, step: int | None = None) -> dict[str, Tensor]:
    """A metric from blocks of ``step`` rows; all rows by default."""
    walk, n = case.walk, case.walk.n_queries
    blocks = []
    for first in range(0, n, step or n):
        rows = slice(first, first + (step or n))
        gate = None if case.output_gate is None else case.output_gate[:, rows]
        part = ConnectionWalk.from_transports(
            case.attention[:, rows],
            walk.transports,
            walk.b_O,
            value_scale=case.value_scale,
            output_gate=gate,
        )
        blocks.append(metric.compute(LayerData(part, case.x, case.y[rows], first)))
    if metric.needs != "rows":
        return dict(blocks[0])
    joined = {name: torch.cat([b[name] for b in blocks], -1) for name in blocks[0]}
    return dict(metric.finish(joined))


@given(cases, st.floats(0.1, 3), st.integers(0, 2**16))
def test_every_term_is_the_naive_sum_and_they_add_up(case: WalkCase, scale: float, seed: int):
    rows = row_energies(case.walk, case.x)
    mu = torch.rand(len(case.x), generator=torch.Generator().manual_seed(seed)).double() + 0.1
    for weights in (None, mu):
        t = torch.tensor(1 / scale, dtype=torch.float64)
        found = balance(rows, t, weights)
        wanted_mu = np.full(len(mu), 1 / len(mu)) if weights is None else mu.numpy()
        wanted = _naive(case, 1 / scale, wanted_mu)
        size = 1 + sum(map(abs, wanted))
        assert [float(v) for v in found[:5]] == pytest.approx(wanted, abs=1e-11 * size)
        assert float(found.residual) <= 1e-12 * size
        by_token = token_balance(rows, t, weights)
        assert [float(v.sum()) for v in by_token[:5]] == pytest.approx(wanted, abs=1e-11 * size)
        assert float(by_token.residual.max()) <= 1e-12 * size


@given(cases, st.floats(0.5, 2))
def test_the_total_is_the_energy_of_the_generator(case: WalkCase, scale: float):
    found = balance(row_energies(case.walk, case.x), torch.tensor(1 / scale).double()).total
    energy = case.walk.generator(scale).energy(case.x) / case.x.square().sum(-1).mean()
    assert float(found) == pytest.approx(float(energy), abs=1e-6)


@given(cases)
def test_the_fitted_scale_has_the_least_dirichlet_energy(case: WalkCase):
    rows = row_energies(case.walk, case.x)
    t = fitted_inverse_scale(rows)
    least = float(balance(rows, t).dirichlet)
    for nudge in (-0.1, 0.1):
        assert least <= float(balance(rows, t + nudge).dirichlet) + 1e-12
    held = (rows.mass * rows.own).mean() / rows.own.mean() / 2
    assert least == pytest.approx(float(held * (1 - alignment(rows).square())), abs=1e-10)


@given(cases)
def test_heads_are_ledgers_of_their_own(case: WalkCase):
    rows = head_energies(case.walk, case.x)
    for h in range(case.walk.n_heads):
        alone = row_energies(case.walk.heads[h], case.x)
        for name, value in rows._asdict().items():
            size = 1 + float(getattr(alone, name).abs().max())
            assert torch.allclose(value[h], getattr(alone, name), rtol=0, atol=1e-12 * size), name


def test_the_ledger_of_a_head_is_that_of_its_walk():
    case = make_case(heads=2, group=2, scale=True, bias=False)
    heads = _measure(ledger.HEADS, case)
    for h in range(4):
        alone = replace(
            case,
            attention=case.attention[h : h + 1],
            W_V=case.W_V[h // 2][None],
            W_O=case.W_O[h : h + 1],
            value_scale=case.value_scale[h : h + 1],
        )
        for name, value in _measure(ledger.METRIC, alone).items():
            if name.startswith("energy_") and name != "energy_scale":
                found = float(heads[f"head_{name}"][h])
                assert found == pytest.approx(float(value), abs=1e-10), name


@given(cases, st.sampled_from(ALL[:4]), st.integers(1, 3))
def test_blocks_of_rows_give_what_the_whole_gives(case: WalkCase, metric: Metric, step: int):
    whole, blocks = _measure(metric, case), _measure(metric, case, step)
    assert set(whole) == {q.name for q in metric.quantities}
    for name, value in whole.items():
        size = 1 + float(value.abs().max())
        assert torch.allclose(value, blocks[name], rtol=0, atol=1e-11 * size), name


@given(cases)
def test_tokens_and_heads_belong_to_the_layer(case: WalkCase):
    layer, tokens = _measure(ledger.METRIC, case), _measure(ledger.TOKENS, case)
    assert tokens["token_energy_total"].shape == (len(case.x),)
    assert _measure(ledger.HEADS, case)["head_energy_total"].shape == (case.walk.n_heads,)
    for name in ("total", "dirichlet", "stationarity", "compatibility", "leak"):
        mean, whole = float(tokens[f"token_energy_{name}"].mean()), float(layer[f"energy_{name}"])
        assert mean == pytest.approx(whole, rel=1e-9, abs=1e-9)


def _reversible(n: int = 5) -> Tensor:
    """A doubly stochastic symmetric walk."""
    ring = torch.roll(torch.eye(n, dtype=torch.float64), 1, 1)
    return 0.5 * torch.eye(n, dtype=torch.float64) + 0.25 * (ring + ring.T)


def _case(attention: Tensor, *maps: Tensor, x: Tensor | None = None) -> WalkCase:
    eye = torch.eye(len(maps[0]), dtype=torch.float64).expand(len(maps), -1, -1)
    case = make_case(
        heads=len(maps), queries=len(attention[0]), keys=len(attention[0]), bias=False,
        width_in=len(maps[0]), width_out=len(maps[0]), value=len(maps[0]),
    )  # fmt: skip
    parts = {"attention": attention, "W_V": torch.stack(maps), "W_O": eye}
    return replace(case, **parts, x=case.x if x is None else x)


@pytest.mark.parametrize("scale", [0.2, 1.0, 7.0])
def test_a_reversible_isometric_walk_has_no_defect(scale: float):
    turned = torch.linalg.qr(_normal(3, 3)).Q
    found = _measure(ledger.METRIC, _case(_reversible()[None], scale * turned))
    for name in ("stationarity", "compatibility", "leak", "residual"):
        assert abs(float(found[f"energy_{name}"])) <= 1e-12
    assert float(found["energy_scale"]) == pytest.approx(scale)
    assert float(found["energy_total"]) == pytest.approx(float(found["energy_dirichlet"]))


def test_a_directed_ring_keeps_the_uniform_law_and_a_sink_does_not():
    one = torch.eye(3, dtype=torch.float64)
    ring = torch.roll(torch.eye(4, dtype=torch.float64), 1, 1)[None]
    assert abs(float(_measure(ledger.METRIC, _case(ring, one))["energy_stationarity"])) <= 1e-12
    sink = torch.zeros(1, 4, 4, dtype=torch.float64)
    sink[..., 0] = 1
    x = torch.ones(4, 3, dtype=torch.float64)
    x[0] = 2
    found = _measure(ledger.METRIC, _case(sink, one, x=x))
    # (1/2) (7 − 16)/7 of squares 4:1:1:1 where all that arrives is 4
    assert float(found["energy_stationarity"]) == pytest.approx(0.5 * (7 - 16) / 7)


def test_a_section_that_the_transports_keep_is_aligned():
    turned, start = torch.linalg.qr(_normal(3, 3)).Q, _normal(3)
    angles = [torch.linalg.matrix_power(turned, i) for i in range(4)]
    ring = torch.roll(torch.eye(4, dtype=torch.float64), -1, 1)[None]
    ring[0, 0] = torch.tensor([1.0, 0, 0, 0])
    x = torch.stack([start @ a for a in angles])
    case = _case(ring, 5 * turned, x=x)
    rows = row_energies(case.walk, case.x)
    inner = type(rows)(*(r[1:] for r in rows))
    assert float(alignment(inner)) == pytest.approx(1)
    assert float(fitted_inverse_scale(inner)) == pytest.approx(1 / 5)


def test_leaking_rows_are_named():
    one = torch.eye(3, dtype=torch.float64)
    found = _measure(ledger.METRIC, _case(0.75 * _reversible()[None], one))
    assert float(found["energy_leak"]) == pytest.approx(0.125)
    assert float(found["energy_compatibility"]) == pytest.approx(0, abs=1e-12)


def test_stretching_gains_what_it_says():
    """Transports of two sizes, tokens along the stretched direction alone."""
    stretch = torch.diag(torch.tensor([1.0, 3.0]).double())
    x = torch.tensor([[0.0, 1.0]]).double().expand(5, 2).contiguous()
    found = _measure(ledger.METRIC, _case(_reversible()[None], stretch, x=x))
    assert float(found["energy_scale"]) == pytest.approx(5**0.5)
    assert float(found["energy_compatibility"]) == pytest.approx((1 - 9 / 5) / 2)


def test_the_stationary_law_has_no_stationarity_defect():
    case = make_case(queries=6, keys=6, seed=3)
    found = _measure(ledger.STATIONARY, case)
    assert abs(float(found["stationary_energy_stationarity"])) <= 1e-12
    assert float(found["stationary_energy_residual"]) <= 1e-12
    causal = _measure(ledger.STATIONARY, make_case(kind="causal"))
    assert abs(float(causal["stationary_energy_stationarity"])) <= 1e-12
    leaking = _measure(ledger.STATIONARY, make_case(kind="leaking"))
    assert all(bool(v.isnan()) for v in leaking.values())


@pytest.mark.parametrize("metric", ALL)
def test_zero_fields_and_zero_maps_have_defined_ledgers(metric: Metric):
    case = make_case(bias=False)
    for still in (replace(case, x=0 * case.x), replace(case, W_O=0 * case.W_O)):
        found = _measure(metric, still)
        assert all(bool(v.isfinite().all()) for v in found.values())
    one = make_case(queries=1, keys=1, bias=False)
    assert all(bool(v.isfinite().all()) for v in _measure(metric, one).values())


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize(
    "kinds",
    [
        {"keys": 6}, {"queries": 6}, {"width_out": 3}, {"gate": True}, {"kind": "signed"},
    ],
)  # fmt: skip
def test_where_it_is_not_defined_it_says_nothing(metric: Metric, kinds: dict[str, object]):
    case = make_case(bias=False, **kinds)
    found = _measure(metric, case)
    assert set(found) == {q.name for q in metric.quantities}
    for name, value in found.items():
        assert bool(value.isnan().all()) or name == "energy_scale"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_in_low_precision_the_identity_still_holds(dtype: torch.dtype):
    case = make_case(3, 3, 40, 40, 48, 48, 8, kind="causal", bias=False)
    parts = {n: v.to(dtype) for n, v in vars(case).items() if v is not None}
    low = replace(case, **parts)
    for metric in ALL:
        found = _measure(metric, low)
        residual = next(v for name, v in found.items() if name.endswith("residual"))
        assert float(residual.max()) <= 1e-4
    exact, found = _measure(ledger.METRIC, case), _measure(ledger.METRIC, low)
    coarse = 64 * torch.finfo(dtype).eps
    for name, value in exact.items():
        assert float(found[name]) == pytest.approx(float(value), rel=coarse, abs=coarse)


@given(cases, st.integers(0, 99), st.sampled_from(ALL))
def test_gauge_permutation_and_basis_move_nothing(case: WalkCase, seed: int, metric: Metric):
    heads = len(case.W_V)
    order = torch.randperm(heads, generator=torch.Generator().manual_seed(seed))
    spread = (order[:, None] * case.group + torch.arange(case.group)).flatten()
    R = 2 * torch.linalg.qr(_normal(*[case.W_V.shape[2]] * 2, seed=seed)).Q
    turn = torch.linalg.qr(_normal(*[case.W_V.shape[1]] * 2, seed=seed)).Q
    moved = replace(
        case,
        attention=case.attention[spread],
        W_V=turn.T @ case.W_V[order] @ R,
        W_O=torch.linalg.solve(R, case.W_O[spread]) @ turn,
        b_V=None,
        b_O=None,
        value_scale=None if case.value_scale is None else case.value_scale[spread],
        x=case.x @ turn,
    )
    still, other = _measure(metric, case), _measure(metric, moved)
    for name, value in still.items():
        wanted = value[spread] if name.startswith("head") else value
        size = 1 + float(wanted.abs().max().nan_to_num())
        assert torch.allclose(other[name], wanted, rtol=0, atol=1e-9 * size, equal_nan=True), name


@given(cases, st.sampled_from(ALL))
def test_all_stay_in_their_bounds(case: WalkCase, metric: Metric):
    found = _measure(metric, case)
    for quantity in metric.quantities:
        value = found[quantity.name]
        low = -math.inf if quantity.bounds[0] is None else quantity.bounds[0]
        high = math.inf if quantity.bounds[1] is None else quantity.bounds[1]
        assert bool(((value >= low) & (value <= high + 1e-12) | value.isnan()).all())
