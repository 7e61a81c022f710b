"""Distances between graphs: naive float64 loops, known answers, metric properties."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conwalk import tolerance
from conwalk.connection import distances, graph_spectra, shuffled_layers
from conwalk.connection.graphs import uniform_graph, without_sink

TIGHT = tolerance.rounding(torch.float64, 100)


def stochastic(
    layers: int, n: int, seed: int, *, causal: bool = True, sharpness: float = 1.0
) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scores = sharpness * torch.randn(layers, n, n, generator=generator, dtype=torch.float64)
    if causal:
        scores = scores.masked_fill(torch.ones(n, n).triu(1) > 0, -torch.inf)
    return scores.softmax(-1)


stacks = st.builds(
    stochastic,
    layers=st.integers(2, 5),
    n=st.integers(1, 6),
    seed=st.integers(0, 10**6),
    causal=st.booleans(),
    sharpness=st.sampled_from([0.0, 0.1, 1.0, 8.0]),
)


def eigen(graph: Tensor) -> tuple[Tensor, Tensor]:
    values, vectors = torch.linalg.eigh(graph_spectra.normalised_laplacian(graph))
    return values, vectors


def heat(graph: Tensor) -> Tensor:
    return graph_spectra.heat_kernel(*eigen(graph), 1.0)


def bottom(graph: Tensor) -> Tensor:
    return graph_spectra.bottom_projector(*eigen(graph), 2)


def naive_tv(p: np.ndarray, q: np.ndarray) -> float:
    rows = [
        0.5 * sum(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in zip(p, q, strict=True)
    ]
    counted = [r for r, a, b in zip(rows, p, q, strict=True) if a.sum() > 0 or b.sum() > 0]
    return sum(counted) / len(counted) if counted else 0.0


@pytest.mark.parametrize("no_sink", [False, True])
@given(graphs=stacks)
def test_total_variation_is_a_loop_over_rows(no_sink: bool, graphs: Tensor) -> None:
    graphs = without_sink(graphs) if no_sink else graphs
    matrix = distances.total_variations(graphs)
    for i, j in itertools.product(range(len(graphs)), repeat=2):
        wanted = naive_tv(graphs[i].numpy(), graphs[j].numpy())
        assert abs(float(matrix[i, j]) - wanted) <= TIGHT
        assert abs(float(distances.total_variation(graphs[i], graphs[j])) - wanted) <= TIGHT
    assert torch.equal(matrix, matrix.mT)
    assert ((matrix >= 0) & (matrix <= 1)).all()


def test_rows_that_share_no_key_are_at_distance_one() -> None:
    assert distances.total_variation(torch.eye(3), torch.eye(3).roll(1, 0)) == 1
    assert distances.total_variation(torch.zeros(1, 1), torch.zeros(1, 1)) == 0
    # the empty row of a causal graph without its sink does not dilute the mean
    first = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    second = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert distances.total_variation(first, second) == 0.5
    # one that is empty in one graph alone counts with the mass that the other has
    second[0] = torch.tensor([0.0, 0.0, 1.0])
    assert float(distances.total_variation(first, second)) == 0.5
    pair = distances.total_variations(torch.stack([first, second]))
    assert torch.equal(pair, torch.tensor([[0.0, 0.5], [0.5, 0.0]]))


def test_pairs_of_layers_are_compared_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = stochastic(4, 7, 0)
    whole = distances.total_variations(graphs)
    curve = distances.adjacent(distances.total_variation, graphs)
    monkeypatch.setattr(distances, "_CHUNK", 2 * 4 * 7)
    assert torch.allclose(distances.total_variations(graphs), whole, rtol=TIGHT)
    assert torch.allclose(whole.diagonal(1), curve[:-1], rtol=TIGHT)
    again = distances.adjacent(distances.total_variation, graphs)
    assert torch.allclose(again[:-1], curve[:-1], rtol=TIGHT)
    assert curve[-1].isnan()


@given(graphs=stacks)
def test_frobenius_is_numpys(graphs: Tensor) -> None:
    p, q = graphs[0].numpy(), graphs[1].numpy()
    norm = np.linalg.norm(p - q)
    size = math.sqrt((np.linalg.norm(p) ** 2 + np.linalg.norm(q) ** 2) / 2)
    assert abs(float(distances.frobenius(graphs[0], graphs[1])) - norm) <= TIGHT
    found = float(distances.relative_frobenius(graphs[0], graphs[1]))
    assert abs(found - norm / size) <= TIGHT
    assert found <= math.sqrt(2) + TIGHT


def test_relative_frobenius_reaches_its_ends() -> None:
    one = torch.ones(2, 2)
    assert distances.relative_frobenius(one, -one) == 2
    assert distances.relative_frobenius(one, 0 * one) == pytest.approx(math.sqrt(2))
    assert distances.relative_frobenius(0 * one, 0 * one) == 0


@given(graphs=stacks)
def test_the_spectral_distance_is_a_best_matching(graphs: Tensor) -> None:
    spectra = graph_spectra.singular_spectra(graphs)
    first, second = (np.linalg.svd(g.numpy(), compute_uv=False) for g in graphs[:2])
    best = min(np.abs(first - np.array(p)).mean() for p in itertools.permutations(second[:6]))
    found = float(graph_spectra.spectral_wasserstein(spectra[0], spectra[1]))
    assert abs(found - best) <= TIGHT


@given(graphs=stacks)
def test_the_laplacian_is_symmetric_with_spectrum_in_zero_two(graphs: Tensor) -> None:
    laplacian = graph_spectra.normalised_laplacian(graphs)
    values = torch.linalg.eigvalsh(laplacian)
    assert torch.equal(laplacian, laplacian.mT)
    assert values.min() >= -TIGHT
    assert values.max() <= 2 + TIGHT
    even = (graphs[0] + graphs[0].mT) / 2
    degree = even.sum(1)
    n = len(even)
    for i, j in itertools.product(range(n), repeat=2):
        wanted = int(i == j) - even[i, j] / (degree[i] * degree[j]).sqrt()
        assert abs(laplacian[0, i, j] - wanted) <= TIGHT


def test_a_token_without_edges_is_not_at_the_bottom_of_the_spectrum() -> None:
    graph = without_sink(stochastic(1, 4, 0)[0])
    laplacian = graph_spectra.normalised_laplacian(graph)
    assert torch.equal(laplacian[0], torch.eye(4, dtype=torch.float64)[0])


@given(graphs=stacks)
def test_the_heat_kernel_is_the_matrix_exponential(graphs: Tensor) -> None:
    values, vectors = eigen(graphs)
    for time in (0.5, 3.0):
        wanted = torch.linalg.matrix_exp(-time * graph_spectra.normalised_laplacian(graphs))
        found = graph_spectra.heat_kernel(values, vectors, time)
        assert torch.allclose(found, wanted, rtol=0, atol=TIGHT)


@given(n=st.integers(2, 7), p=st.integers(1, 7), q=st.integers(1, 7), seed=st.integers(0, 10**6))
def test_subspace_distance_is_the_sines_of_the_principal_angles(
    n: int, p: int, q: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    bases = torch.linalg.qr(torch.randn(2, n, n, generator=generator, dtype=torch.float64)).Q
    first, second = bases[0, :, : min(p, n)], bases[1, :, : min(q, n)]
    angles = graph_spectra.principal_angles(first, second)
    found = graph_spectra.subspace_distance(first @ first.mT, second @ second.mT)
    wanted = angles.sin().square().mean().sqrt()
    # an angle of 0 is known to the root of rounding
    assert abs(float(found - wanted)) <= math.sqrt(TIGHT)
    assert len(angles) == min(p, q, n)


def test_principal_angles_of_known_planes() -> None:
    basis = torch.eye(3, dtype=torch.float64)
    tilted = torch.stack([basis[0], (basis[1] + basis[2]) / math.sqrt(2)], 1)
    angles = graph_spectra.principal_angles(basis[:, :2], tilted)
    wanted = torch.tensor([0.0, math.pi / 4], dtype=torch.float64)
    assert torch.allclose(angles, wanted, atol=1e-7)
    found = graph_spectra.subspace_distance(basis[:, :2] @ basis[:, :2].mT, tilted @ tilted.mT)
    assert float(found) == pytest.approx(math.sqrt(0.25))


def test_degenerate_eigenvalues_are_taken_all_or_none() -> None:
    turn = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64)).Q
    # equal up to rounding
    values = torch.tensor([0.0, 1.0, 1.0 + 4e-16, 2.0], dtype=torch.float64)
    other = turn.clone()
    c, s = math.cos(0.7), math.sin(0.7)
    other[:, 1], other[:, 2] = c * turn[:, 1] + s * turn[:, 2], c * turn[:, 2] - s * turn[:, 1]
    first = graph_spectra.bottom_projector(values, turn, 2)
    second = graph_spectra.bottom_projector(values, other, 2)
    assert float(first.trace()) == pytest.approx(3)
    assert torch.allclose(first, second, atol=TIGHT)
    assert float(graph_spectra.bottom_projector(values, turn, 9).trace()) == pytest.approx(4)
    # a plane inside a space is at distance 0 from it
    plane = graph_spectra.bottom_projector(values, turn, 1)
    assert float(graph_spectra.subspace_distance(plane, first)) <= math.sqrt(TIGHT)


RULERS = {
    "tv": (distances.total_variation, lambda g: g),
    "frobenius": (distances.frobenius, lambda g: g),
    "relative_frobenius": (distances.relative_frobenius, lambda g: g),
    "spectrum": (graph_spectra.spectral_wasserstein, graph_spectra.singular_spectra),
    "heat": (distances.frobenius, heat),
    "subspace": (graph_spectra.subspace_distance, bottom),
}


@pytest.mark.parametrize("name", RULERS)
@given(graphs=stacks)
def test_every_distance_is_symmetric_and_zero_for_equal_graphs(name: str, graphs: Tensor) -> None:
    distance, features = RULERS[name]
    objects = features(graphs)
    assert (distances.one_by_one(distance, objects, objects) == 0).all()
    there, back = distance(objects[0], objects[1]), distance(objects[1], objects[0])
    assert torch.allclose(there, back, rtol=0, atol=TIGHT)
    matrix = distances.pairwise(distance, objects)
    curve = distances.adjacent(distance, objects)
    assert torch.equal(matrix, matrix.mT)
    assert torch.allclose(matrix.diagonal(1), curve[:-1], rtol=0, atol=TIGHT)


@pytest.mark.parametrize("name", ["tv", "frobenius", "spectrum", "heat"])
@given(graphs=stacks)
def test_relative_to_uniform_obeys_the_triangle(name: str, graphs: Tensor) -> None:
    distance, features = RULERS[name]
    objects, even = features(graphs[:2]), features(uniform_graph(graphs[:2]))
    away = distance(objects, even)
    ratio = distances.relative_to_uniform(distance(objects[0], objects[1]), away[0], away[1])
    assert 0 <= float(ratio) <= 2 + TIGHT


def test_one_token_is_at_distance_zero_by_every_ruler() -> None:
    graphs = torch.ones(2, 1, 1, dtype=torch.float64)
    for distance, features in RULERS.values():
        objects = features(graphs)
        found = distance(objects[0], objects[1])
        zero = found * 0
        assert found == 0
        assert distances.relative_to_uniform(found, zero, zero) == 0


def test_unrelated_directions_from_uniform_have_ratio_root_two() -> None:
    even = torch.full((100, 100), 0.01, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    noise = 1e-3 * torch.randn(2, 100, 100, generator=generator, dtype=torch.float64)
    graphs = even + noise
    ratio = distances.relative_to_uniform(
        distances.frobenius(graphs[0], graphs[1]),
        distances.frobenius(graphs[0], even),
        distances.frobenius(graphs[1], even),
    )
    assert float(ratio) == pytest.approx(math.sqrt(2), rel=0.02)


@given(n=st.integers(1, 6), seed=st.integers(0, 10**6), holes=st.integers(0, 63))
def test_moments_of_random_orders_are_those_of_all_orders(n: int, seed: int, holes: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    half = torch.rand(n, n, generator=generator, dtype=torch.float64).triu(1)
    matrix = half + half.mT
    steps = torch.tensor([not holes >> k & 1 for k in range(n - 1)], dtype=torch.bool)
    mean, sd = shuffled_layers.path_moments(matrix, steps)
    if not steps.any():
        assert mean.isnan()
        assert sd.isnan()
        return
    means = [
        np.mean([float(matrix[p[k], p[k + 1]]) for k in range(n - 1) if steps[k]])
        for p in itertools.permutations(range(n))
    ]
    assert abs(float(mean) - np.mean(means)) <= TIGHT
    assert abs(float(sd) ** 2 - np.var(means)) <= TIGHT
    pairs = [float(matrix[i, j]) for i in range(n) for j in range(n) if i != j]
    step_mean, step_sd = shuffled_layers.step_moments(matrix)
    assert abs(float(step_mean) - np.mean(pairs)) <= TIGHT
    assert abs(float(step_sd) - np.std(pairs)) <= TIGHT


def test_a_single_layer_has_no_step() -> None:
    mean, sd = shuffled_layers.step_moments(torch.zeros(1, 1))
    assert mean.isnan()
    assert sd.isnan()
    assert distances.adjacent(distances.total_variation, torch.ones(1, 2, 2)).isnan().all()
