"""From z to p to q, against scipy and the definition."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from conwalk.stats import benjamini_hochberg, two_sided

PROBABILITIES = arrays.arrays(
    np.float64,
    arrays.array_shapes(max_dims=3, max_side=5),
    elements=st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.05, 1.0])),
)


def by_definition(p: np.ndarray) -> np.ndarray:
    """The smallest rate at which each test is among the discoveries of the step-up rule."""
    flat, q = p.ravel(), np.ones(p.size)
    for i in range(p.size):
        for bound in flat[flat >= flat[i]]:
            q[i] = min(q[i], bound * p.size / np.sum(flat <= bound))
    return q.reshape(p.shape)


@given(PROBABILITIES)
def test_q_is_the_smallest_rate_of_discovery(p: np.ndarray) -> None:
    q = benjamini_hochberg(p)
    np.testing.assert_allclose(q, by_definition(p), rtol=1e-12)
    expected = scipy.stats.false_discovery_control(p, axis=None)
    np.testing.assert_allclose(q.ravel(), np.ravel(expected), rtol=1e-12)


@given(PROBABILITIES)
def test_q_is_above_p_and_in_the_same_order(p: np.ndarray) -> None:
    q = benjamini_hochberg(p)
    assert (q >= p * (1 - 1e-12)).all()
    assert (q <= 1).all()
    order = np.argsort(p, axis=None, kind="stable")
    assert (np.diff(q.ravel()[order]) >= 0).all()


def test_places_without_a_test_do_not_count() -> None:
    p = np.array([[0.01, np.nan], [0.04, 0.02]])
    q = benjamini_hochberg(p)
    assert np.isnan(q[0, 1])
    np.testing.assert_allclose(q[~np.isnan(p)], benjamini_hochberg(p[~np.isnan(p)]))
    np.testing.assert_allclose(q[~np.isnan(p)], [0.03, 0.04, 0.03])


def test_no_test_at_all() -> None:
    assert benjamini_hochberg(np.empty((0, 3))).shape == (0, 3)
    assert np.isnan(benjamini_hochberg(np.full(4, np.nan))).all()


@pytest.mark.parametrize("z", [0.0, 0.5, 1.959963984540054, -1.959963984540054, 8.0, 37.0])
def test_two_sided_probability(z: float) -> None:
    found = two_sided(np.array([z]))
    np.testing.assert_allclose(found, [2 * scipy.stats.norm.sf(abs(z))], rtol=1e-10)


def test_two_sided_probability_of_nothing_is_nothing() -> None:
    assert np.isnan(two_sided(np.array([np.nan]))).all()


def test_pure_noise_makes_few_discoveries() -> None:
    """With nothing to find, the rate of families with any discovery is the level itself."""
    noise = np.random.default_rng(0).standard_normal((400, 50))
    any_found = [(benjamini_hochberg(two_sided(z)) <= 0.1).any() for z in noise]
    low, high = scipy.stats.binom.interval(0.999, len(noise), 0.1)
    assert low <= sum(any_found) <= high
