"""Vector diffusion maps: inner products are overlaps of powers of the symmetrised walk."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conwalk.connection.diffusion import vector_diffusion_map
from conwalk.connection.symmetrised import ConnectionGraph, symmetrise
from conwalk.errors import SelectionError
from group_walks import flat_transports, group_walk, random_frames, reversible_kernel, twist
from walk_cases import WalkCase, make_case, walk_cases

CLOSE = 1e-9


def _graph(n_tokens: int, seed: int) -> ConnectionGraph:
    twisted = twist(flat_transports(random_frames(n_tokens, seed)), 0, 2)
    return symmetrise(group_walk(reversible_kernel(n_tokens, seed, edges=0.6), twisted))


@given(st.integers(3, 6), st.integers(0, 999), st.integers(0, 3))
def test_all_coordinates_give_norms_of_blocks(n_tokens: int, seed: int, time: int):
    graph = _graph(n_tokens, seed)
    found = vector_diffusion_map(graph, 3 * n_tokens, time=time)
    power = np.linalg.matrix_power(graph.normalised.numpy(), 2 * time)
    blocks = power.reshape(n_tokens, 3, n_tokens, 3)
    wanted = np.square(blocks).sum((1, 3))
    inner = found.coordinates @ found.coordinates.mT
    assert np.allclose(inner, wanted, rtol=0, atol=CLOSE)
    norms = np.diag(wanted)
    squares = norms[:, None] + norms - 2 * wanted
    assert np.allclose(found.distances.square(), squares, rtol=0, atol=CLOSE)
    assert found.time == time
    assert found.fields.shape == (3 * n_tokens, n_tokens, 3)


@given(st.integers(3, 6), st.integers(0, 999))
def test_few_coordinates_leave_the_small_eigenvalues_out(n_tokens: int, seed: int):
    graph = _graph(n_tokens, seed)
    found = vector_diffusion_map(graph, 2, time=2)
    values, vectors = np.linalg.eigh(graph.normalised.numpy())
    if values[-2] - values[-3] < 1e-3:
        return
    kept = (vectors[:, -2:] * values[-2:] ** 4) @ vectors[:, -2:].T
    wanted = np.square(kept.reshape(n_tokens, 3, n_tokens, 3)).sum((1, 3))
    assert found.coordinates.shape == (n_tokens, 3)
    assert np.allclose(found.eigenvalues, values[::-1][:2])
    inner = found.coordinates @ found.coordinates.mT
    assert np.allclose(inner, wanted, rtol=0, atol=CLOSE)


def test_a_flat_connection_is_a_point_up_to_degrees():
    # the three zeros of the Laplacian are parallel fields: all tokens agree about everything
    frames = random_frames(7, 1)
    graph = symmetrise(group_walk(reversible_kernel(7, 1), flat_transports(frames)))
    found = vector_diffusion_map(graph, 3, time=5)
    points = found.coordinates / graph.degrees[:, None]
    assert torch.allclose(points, points[:1].expand_as(points), atol=CLOSE)
    assert found.coordinates.norm(dim=1).min() > 0.01


@given(walk_cases(square=True, gate=False))
def test_any_walk_has_finite_coordinates(case: WalkCase):
    graph = symmetrise(case.walk)
    count = min(4, graph.normalised.shape[0])
    found = vector_diffusion_map(graph, count)
    assert found.coordinates.shape == (case.walk.n_keys, count * (count + 1) // 2)
    assert bool(found.coordinates.isfinite().all())


def test_counts_and_times_that_make_no_sense_are_refused():
    graph = symmetrise(make_case().walk)
    with pytest.raises(SelectionError, match="20 eigenvalues"):
        vector_diffusion_map(graph, 21)
    with pytest.raises(SelectionError, match="time -1"):
        vector_diffusion_map(graph, 2, time=-1)
