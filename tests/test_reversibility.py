"""Reversibility read from scores: curl against gradient."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conwalk import tolerance
from conwalk.connection import stationary
from conwalk.connection.reversibility import (
    curl_share_chance,
    irreversible_share_chance,
    split_scores,
)
from conwalk.metrics import LayerData, reversibility
from walk_cases import make_case


def _normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _naive(scores: np.ndarray) -> tuple[float, float]:
    n = len(scores)
    skew = np.array([[(scores[i, j] - scores[j, i]) / 2 for j in range(n)] for i in range(n)])
    g = [sum(skew[i]) / n for i in range(n)]
    curl = sum((skew[i, j] - g[i] + g[j]) ** 2 for i in range(n) for j in range(n))
    seen = sum((scores[i, j] - scores[i].mean()) ** 2 for i in range(n) for j in range(n))
    return curl / (skew**2).sum(), curl / seen


@given(st.integers(1, 3), st.integers(3, 7), st.integers(0, 2**16))
def test_shares_are_the_naive_sums(heads: int, n: int, seed: int):
    scores = _normal(heads, n, n, seed=seed)
    found = split_scores(scores)
    for head in range(heads):
        curl, irreversible = _naive(scores[head].numpy())
        assert float(found.curl_share[head]) == pytest.approx(curl, rel=1e-11)
        assert float(found.irreversible_share[head]) == pytest.approx(irreversible, rel=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(seed=st.integers(0, 2**16))
def test_symmetric_scores_with_biases_have_no_curl(dtype: torch.dtype, seed: int):
    base = _normal(2, 9, 9, seed=seed).to(dtype)
    scores = base @ base.mT + 30 * _normal(2, 1, 9, seed=seed + 1).to(dtype)
    scores[:, :, 0] += 100
    for what in (base @ base.mT, scores, scores + _normal(2, 9, 1, seed=seed + 2).to(dtype)):
        assert not split_scores(what).curl_share.any()
        assert not split_scores(what).irreversible_share.any()


@given(st.integers(0, 2**16))
def test_the_softmax_of_scores_without_curl_is_reversible(seed: int):
    # mild, so that the chain mixes fast and its stationary law is known to all digits
    base, bias = _normal(6, 6, seed=seed).tanh() / 2, _normal(6, seed=seed + 1).tanh()
    scores = base + base.T + bias
    walk = torch.softmax(scores, -1)
    assert stationary.flow_asymmetry(walk) <= tolerance.rounding(torch.float64, 36)
    cyclic = torch.roll(torch.eye(6, dtype=torch.float64), 1, 1)
    assert stationary.flow_asymmetry(torch.softmax(scores + cyclic, -1)) > 1e-2


def test_a_ring_is_all_curl():
    ring = torch.roll(torch.eye(5, dtype=torch.float64), 1, 1)
    assert float(split_scores(ring[None]).curl_share) == pytest.approx(1)


def test_chance_is_what_independent_scores_have():
    n = 12
    found = split_scores(_normal(4000, n, n))
    assert float(found.curl_share.mean()) == pytest.approx(curl_share_chance(n), abs=2e-3)
    ours = float(found.irreversible_share.mean())
    assert ours == pytest.approx(irreversible_share_chance(n), abs=3e-3)
    assert [curl_share_chance(n) for n in (1, 2, 4)] == [0, 0, 0.5]


@pytest.mark.parametrize(
    "scores",
    [torch.zeros(2, 1, 1), torch.zeros(2, 4, 4), torch.full((2, 4, 4), 7.3), torch.ones(1, 2, 2)],
)
def test_nothing_over_nothing_is_nothing(scores: Tensor):
    found = split_scores(scores)
    assert not found.curl_share.any()
    assert not found.irreversible_share.any()


def _data(scores: Tensor | None, **kinds: object) -> LayerData:
    case = make_case(**kinds)
    return LayerData(case.walk, case.x, case.y, scores=scores)


def test_the_metric_names_what_the_mask_hides():
    found = reversibility.METRIC.compute(_data(_normal(3, 4, 4), kind="causal"))
    assert set(found) == {q.name for q in reversibility.METRIC.quantities}
    assert float(found["counterfactual_scores"]) == pytest.approx(6 / 16)
    assert float(found["curl_share_chance"]) == 0.5
    assert found["curl_share"].shape == (3,)
    full = reversibility.METRIC.compute(_data(_normal(3, 4, 4)))
    assert float(full["counterfactual_scores"]) == 0


def test_without_square_scores_nothing_is_claimed():
    for data in (_data(None), _data(_normal(3, 4, 2), keys=2)):
        found = reversibility.METRIC.compute(data)
        assert found["curl_share"].isnan().all()
        assert found["curl_share_chance"].isnan()
    assert split_scores(_normal(3, 4, 2)).curl_share.isnan().all()


def test_a_score_that_is_not_finite_is_not_judged():
    scores = _normal(1, 3, 3)
    scores[0, 0, 1] = -torch.inf
    assert split_scores(scores).curl_share.isnan().all()
