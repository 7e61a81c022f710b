"""Stationary laws, detailed balance of walks, and the gaps of restart chains."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conwalk import tolerance
from conwalk.connection import restart, stationary
from conwalk.metrics import LayerData, flow
from conwalk.metrics import restart as restart_metric
from walk_cases import make_case

ROUNDING = tolerance.rounding(torch.float64, 64)


def _chain(n: int, seed: int, spread: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scores = spread * torch.randn(n, n, generator=generator, dtype=torch.float64)
    return torch.softmax(scores, -1)


def _ring(n: int) -> Tensor:
    return torch.roll(torch.eye(n, dtype=torch.float64), 1, 1)


def _causal(n: int) -> Tensor:
    weights = torch.ones(n, n, dtype=torch.float64).tril()
    return weights / weights.sum(-1, keepdim=True)


def _naive_law(walk: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eig(walk.T)
    law = np.real(vectors[:, np.argmax(values.real)])
    return law / law.sum()


@given(st.integers(1, 8), st.integers(0, 2**16), st.sampled_from([0.1, 1.0, 4.0]))
def test_the_law_and_the_flow_of_a_chain(n: int, seed: int, spread: float):
    walk = _chain(n, seed, spread)
    law = stationary.stationary_law(walk)
    wanted = _naive_law(walk.numpy())
    # how far rounding moves a stationary law depends on how well the chain mixes
    gap = 1 - np.sort(np.abs(np.linalg.eigvals(walk.numpy())))[-2] if n > 1 else 1
    assert np.abs(law.numpy() - wanted).max() <= ROUNDING / gap
    flux = [[wanted[i] * float(walk[i, j]) * (i != j) for j in range(n)] for i in range(n)]
    there = sum(abs(flux[i][j] - flux[j][i]) for i in range(n) for j in range(n))
    if n == 1:
        assert math.isnan(stationary.flow_asymmetry(walk))
    else:
        wanted_flow = there / (2 * np.sum(flux))
        found = stationary.flow_asymmetry(walk)
        assert found == pytest.approx(wanted_flow, abs=ROUNDING / gap / np.sum(flux))
    moved = [abs(sum(walk[i, j] for i in range(n)) / n - 1 / n) for j in range(n)]
    assert stationary.stationarity_defect(walk) == pytest.approx(float(sum(moved)) / 2, abs=1e-12)


def test_chains_that_never_settle_are_solved():
    star = torch.tensor([[0, 0.25, 0.75], [1, 0, 0], [1, 0, 0]], dtype=torch.float64)
    law = stationary.stationary_law(star)
    assert torch.allclose(law, torch.tensor([0.5, 0.125, 0.375]).double(), atol=1e-14)
    assert stationary.flow_asymmetry(star) <= ROUNDING
    slow = torch.tensor([[1 - 1e-6, 1e-6], [3e-6, 1 - 3e-6]], dtype=torch.float64)
    law = stationary.stationary_law(slow)
    assert torch.allclose(law, torch.tensor([0.75, 0.25]).double(), atol=1e-8)


def test_a_directed_ring_runs_one_way_and_a_symmetric_walk_both():
    assert stationary.flow_asymmetry(_ring(5)) == pytest.approx(1)
    assert stationary.flow_asymmetry((_ring(5) + _ring(5).T) / 2) <= ROUNDING
    assert stationary.stationarity_defect(_ring(5)) <= ROUNDING


def test_a_causal_walk_ends_on_token_0():
    walk = _causal(6)
    assert stationary.first_is_absorbing(walk)
    assert stationary.stationary_law(walk).tolist() == [1, 0, 0, 0, 0, 0]
    assert math.isnan(stationary.flow_asymmetry(walk))
    assert not stationary.first_is_absorbing(_chain(4, 0))
    escaping = walk.float()
    escaping[0, 1] = 1e-9
    assert not stationary.first_is_absorbing(escaping)
    leaking = walk.clone()
    leaking[0, 0] = 0.9
    assert not stationary.first_is_absorbing(leaking)
    assert stationary.stationary_law(leaking).isnan().all()


def test_even_causal_attention_moves_one_in_e():
    assert stationary.stationarity_defect(_causal(2000)) == pytest.approx(1 / math.e, abs=2e-3)


def test_a_prefix_that_sees_itself_is_the_recurrent_class():
    walk = torch.zeros(5, 5, dtype=torch.float64)
    walk[:3, :3] = _chain(3, 1)
    walk[3:] = _causal(5)[3:]
    assert stationary.recurrent(walk).tolist() == [True, True, True, False, False]
    inner = stationary.flow_asymmetry(walk[:3, :3])
    assert stationary.flow_asymmetry(walk) == pytest.approx(inner, abs=1e-12)


def test_two_closed_classes_have_no_one_law():
    walk = torch.block_diag(_chain(2, 0), _chain(3, 1))
    assert not stationary.recurrent(walk).any()
    assert stationary.stationary_law(walk).isnan().all()
    assert math.isnan(stationary.flow_asymmetry(walk))


@pytest.mark.parametrize("walk", [torch.full((3, 2), 0.5), torch.tensor([[1.5, -0.5], [0.5, 0.5]])])
def test_what_is_no_chain_has_no_flow(walk: Tensor):
    assert math.isnan(stationary.flow_asymmetry(walk))
    assert math.isnan(stationary.stationarity_defect(walk))
    assert all(map(math.isnan, restart.restart_gaps(walk)))


def _naive_gaps(walk: np.ndarray, alpha: float) -> tuple[float, float, float]:
    n = len(walk)
    chain = (1 - alpha) * walk + alpha / n
    law = _naive_law(chain)
    back = np.array([[law[j] * chain[j, i] / law[i] for j in range(n)] for i in range(n)])

    def second(matrix: np.ndarray) -> float:
        return float(np.sort(np.linalg.eigvals(matrix).real)[-2])

    gaps = [
        (1 - second(np.linalg.matrix_power(back, k) @ np.linalg.matrix_power(chain, k))) / k
        for k in restart.POWERS
    ]
    return 1 - second((chain + back) / 2), gaps[0], max(gaps)


@given(st.integers(2, 7), st.integers(0, 2**16), st.sampled_from([0.15, 0.5]), st.booleans())
def test_gaps_of_the_restart_chain(n: int, seed: int, alpha: float, causal: bool):
    walk = _chain(n, seed, 2.0)
    if causal:
        walk = walk.tril() / walk.tril().sum(-1, keepdim=True)
    found = restart.restart_gaps(walk, alpha)
    assert found == pytest.approx(_naive_gaps(walk.numpy(), alpha), abs=1e-7)


def test_gaps_of_known_chains():
    even = torch.full((5, 5), 0.2, dtype=torch.float64)
    assert restart.restart_gaps(even) == pytest.approx((1, 1, 1))
    keep = 1 - restart.ALPHA
    assert restart.restart_gaps(torch.eye(3, dtype=torch.float64)) == pytest.approx(
        (1 - keep, 1 - keep**2, max((1 - keep ** (2 * k)) / k for k in restart.POWERS))
    )
    ring = restart.restart_gaps(_ring(4))
    assert ring.chung == pytest.approx(1 - keep * math.cos(math.tau / 4))
    assert all(map(math.isnan, restart.restart_gaps(torch.ones(1, 1))))


@pytest.mark.parametrize("kind", ["plain", "causal", "leaking", "signed", "holes"])
@pytest.mark.parametrize("metric", [flow.METRIC, restart_metric.METRIC])
def test_metrics_answer_in_bounds_or_not_at_all(kind: str, metric: object):
    assert metric in (flow.METRIC, restart_metric.METRIC)
    for queries, keys in ((4, 4), (1, 1), (3, 4)):
        case = make_case(queries=queries, keys=keys, kind=kind)
        found = metric.compute(LayerData(case.walk, case.x, case.y))
        assert set(found) == {q.name for q in metric.quantities}
        for quantity in metric.quantities:
            value = float(found[quantity.name])
            low, high = quantity.bounds
            assert math.isnan(value) or low <= value <= high
    assert math.isnan(float(found[metric.quantities[0].name]))
