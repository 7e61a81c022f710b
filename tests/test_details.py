"""What reports draw: maps against single edges, blocks against wholes, nulls against draws."""

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from conwalk.capture import CapturedLayer, watch
from conwalk.connection import ConnectionWalk
from conwalk.connection.diffusion import principal_axes
from conwalk.metrics.details import (
    edge_maps,
    eigenvalue_cloud,
    operator_distances,
    singular_values,
    token_map,
)
from conwalk.nulls import gaussian
from conwalk.pipeline import analysis, analyze
from dense_reference import dense_walk
from tiny_models import make_tiny
from walk_cases import WalkCase, make_case, walk_cases

IDS = [[5, 9, 13, 40, 21, 8], [7, 7, 7]]
CLOSE = 1e-9


@given(walk_cases(gate=False))
def test_maps_are_those_of_single_edges(case: WalkCase) -> None:
    walk = case.walk
    found = edge_maps.edge_rows(walk, 1)
    matrix = walk.walk_matrix()
    assert torch.equal(found["walk_matrix"], matrix)
    for i, j in (matrix != 0).nonzero().tolist():
        sigma = torch.linalg.svdvals(walk.transport(i, j))
        norm = sigma.square().sum().sqrt()
        # what cancels between heads leaves rounding of the size of the parts
        parts = sum(
            float((case.attention[h, i, j] / matrix[i, j]).abs() * walk.transports.norms()[h])
            for h in range(walk.n_heads)
        ) * float(1 if case.value_scale is None else case.value_scale[:, j].max())
        assert abs(float(found["edge_norm"][i, j]) - float(norm)) <= 1e-7 * parts
        if norm > 1e-3 * parts:
            rank = float(norm**4 / sigma.pow(4).sum())
            assert float(found["edge_effective_rank"][i, j]) == pytest.approx(rank, rel=1e-6)
    assert found["edge_norm"][matrix == 0].isnan().all()


def test_what_a_gate_does_to_edges_is_not_in_the_maps() -> None:
    found = edge_maps.edge_rows(make_case(gate=True).walk, 1)
    assert found["edge_norm"].isnan().all()
    assert found["edge_effective_rank"].isnan().all()
    assert found["walk_matrix"].isfinite().all()


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 99))
def test_cells_are_means_of_what_is_there(rows: int, cell: int, seed: int) -> None:
    numbers = torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed))
    numbers[numbers > 1] = torch.nan
    found = edge_maps.in_cells(numbers, cell)
    assert len(found) == -(-rows // cell)
    for c, part in enumerate(numbers.split(cell)):
        for column in range(3):
            there = part[:, column][~part[:, column].isnan()]
            if len(there):
                assert float(found[c, column]) == pytest.approx(float(there.mean()), rel=1e-5)
            else:
                assert found[c, column].isnan()


@pytest.mark.parametrize(("tokens", "cell"), [(1, 1), (256, 1), (257, 2), (4096, 16), (4097, 17)])
def test_images_have_at_most_256_cells_a_side(tokens: int, cell: int) -> None:
    assert edge_maps.tokens_per_cell(tokens) == cell
    assert -(-tokens // cell) <= edge_maps.CELLS


def test_the_cloud_of_a_causal_walk_holds_eigenvalues_of_the_whole_operator() -> None:
    case = make_case(kind="causal", queries=6, keys=6)
    whole = np.linalg.eigvals(dense_walk(case.walk.attention, case.W_V, case.W_O, **case.extras))
    cloud = eigenvalue_cloud.eigenvalue_cloud(case.walk).numpy()
    assert len(cloud) == 4 * 5
    for value in cloud:
        assert np.abs(whole - value).min() < CLOSE


def test_the_cloud_of_a_short_causal_walk_is_its_whole_spectrum() -> None:
    case = make_case(kind="causal", queries=4, keys=4)
    whole = np.linalg.eigvals(dense_walk(case.walk.attention, case.W_V, case.W_O, **case.extras))
    cloud = eigenvalue_cloud.eigenvalue_cloud(case.walk).numpy()
    assert np.allclose(np.sort(cloud.real), np.sort(whole.real), atol=CLOSE)


def test_the_cloud_of_another_walk_holds_its_leading_eigenvalues() -> None:
    case = make_case(queries=4, keys=4)
    whole = np.linalg.eigvals(dense_walk(case.walk.attention, case.W_V, case.W_O, **case.extras))
    cloud = eigenvalue_cloud.eigenvalue_cloud(case.walk).numpy()
    assert np.allclose(np.sort(np.abs(cloud)), np.sort(np.abs(whole))[-len(cloud) :], atol=1e-7)
    assert len(eigenvalue_cloud.eigenvalue_cloud(make_case(queries=3).walk)) == 0


def test_isometries_have_their_scale() -> None:
    rotation = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64)).Q
    walk = ConnectionWalk(
        torch.full((1, 3, 3), 1 / 3).double(), 2.5 * rotation[None], torch.eye(4)[None].double()
    )
    assert float(eigenvalue_cloud.cloud_scale(walk)) == pytest.approx(2.5, rel=1e-12)
    cloud = eigenvalue_cloud.eigenvalue_cloud(walk) / 2.5
    largest = cloud.abs().sort(descending=True).values[:4]
    assert torch.allclose(largest, torch.ones(4).double(), atol=1e-6)
    assert eigenvalue_cloud.cloud_scale(make_case(gate=True).walk).isnan()


def test_principal_axes_keep_distances_and_come_in_order() -> None:
    points = torch.randn(7, 5, dtype=torch.float64)
    turned = principal_axes(points)
    assert torch.allclose(torch.cdist(turned, turned), torch.cdist(points, points), atol=1e-7)
    assert bool((turned.square().sum(0).diff() <= CLOSE).all())
    largest = turned.gather(0, turned.abs().argmax(0, keepdim=True))
    assert bool((largest >= 0).all())
    assert torch.allclose(turned.abs(), principal_axes(-points).abs(), atol=CLOSE)


def test_tokens_that_do_the_same_lie_at_the_same_place() -> None:
    case = make_case(queries=5, keys=5, kind="plain")
    attention = case.attention.clone()
    attention[:, :, 1] = attention[:, :, 0]
    attention[:, 1] = attention[:, 0]
    points = token_map.token_map(case.change(attention=attention).walk)
    assert points is not None
    assert points.shape == (5, token_map.AXES)
    apart = torch.cdist(points, points)
    assert float(apart[0, 1]) < 0.5 * float(apart[0, 2:].min())


@pytest.mark.parametrize(
    "case", [make_case(queries=3), make_case(gate=True), make_case(queries=1, keys=1)],
    ids=["rectangular", "gated", "one token"],
)  # fmt: skip
def test_there_is_no_map_of_tokens_where_none_is_defined(case: WalkCase) -> None:
    assert token_map.token_map(case.walk) is None


def test_operator_distances_are_those_of_dense_matrices() -> None:
    cases = {0: make_case(seed=1), 2: make_case(seed=2), 3: make_case(seed=3, gate=True)}
    grams: operator_distances.Grams = {}
    walks = {place: case.walk for place, case in cases.items()}
    places, found = operator_distances.operator_distances(walks, grams)
    assert list(places) == [0, 2]
    dense = [
        dense_walk(cases[p].attention, cases[p].W_V, cases[p].W_O, **cases[p].extras)
        for p in places
    ]
    size = (np.square(dense[0]).sum() + np.square(dense[1]).sum()) / 2
    wanted = np.sqrt(np.square(dense[0] - dense[1]).sum() / size)
    assert float(found[0, 1]) == pytest.approx(wanted, rel=1e-9)
    assert torch.equal(found, found.mT)
    assert float(found.diagonal().max()) < 1e-6
    again = operator_distances.operator_distances(walks, grams)[1]
    assert torch.equal(again, found)


def test_nine_in_ten_random_heads_are_inside_the_band() -> None:
    low, high = singular_values.null_band(gaussian.singular_values(16, 16, 4, draws=400, seed=0))
    other = gaussian.singular_values(16, 16, 4, draws=400, seed=1)
    other = other / other.square().mean(-1, keepdim=True).sqrt()
    inside = ((other >= low) & (other <= high)).double().mean(0)
    assert bool((inside > 0.84).all())
    assert bool((inside < 0.96).all())


@pytest.fixture(scope="module")
def found() -> xr.Dataset:
    return analyze(make_tiny("llama"), IDS, details=True)


def test_a_run_keeps_the_maps_of_its_layers(found: xr.Dataset) -> None:
    model = make_tiny("llama")
    caught: list[CapturedLayer] = []
    watch(model).stream({"input_ids": torch.tensor(IDS[:1])}, caught.append)
    for place, layer in enumerate(caught):
        maps = edge_maps.edge_rows(layer.walk, 1)
        for name, image in maps.items():
            kept = found[name].values[0, place]
            assert np.allclose(kept, image.numpy(), rtol=1e-6, equal_nan=True)
        sigma = found["singular_values"].values[place]
        assert np.allclose(sigma, layer.transports.singular_values(), rtol=1e-5, atol=1e-7)
    assert np.isnan(found["walk_matrix"].values[1, :, 3:]).all()
    assert np.isnan(found["walk_matrix"].values[1, :, :, 3:]).all()
    assert np.isfinite(found["walk_matrix"].values[1, :, :3, :3]).all()
    assert found["walk_matrix"].attrs["tokens_per_cell"] == 1
    assert found["operator_distance"].dims == ("prompt", "layer", "layer_to")
    assert found["walk_matrix"].dtype == np.float32


def test_no_maps_unless_asked() -> None:
    assert "walk_matrix" not in analyze(make_tiny("llama"), IDS)


def test_long_texts_give_the_same_maps_in_blocks(
    found: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "BLOCK_ABOVE", 2)
    monkeypatch.setattr(analysis, "BLOCK_ROWS", 4)
    blocks = analyze(make_tiny("llama"), IDS, details=True)
    for name in ("walk_matrix", "edge_norm", "edge_effective_rank"):
        assert np.allclose(blocks[name], found[name], rtol=1e-4, atol=1e-6, equal_nan=True)
    assert "diffusion_map" not in blocks


def _pairs(images: np.ndarray) -> np.ndarray:
    """Means of neighbours along the last axis, of those that are there."""
    two = np.stack([images[..., 0::2], images[..., 1::2]])
    there = ~np.isnan(two)
    means = np.nansum(two, 0) / np.maximum(there.sum(0), 1)
    return np.where(there.any(0), means, np.nan)


@pytest.mark.parametrize("above", [512, 2])
def test_images_of_longer_texts_are_means_over_cells(
    found: xr.Dataset, above: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_maps, "CELLS", 3)
    monkeypatch.setattr(analysis, "BLOCK_ABOVE", above)
    monkeypatch.setattr(analysis, "BLOCK_ROWS", 4)
    pooled = analyze(make_tiny("llama"), IDS, details=True)
    for name in ("walk_matrix", "edge_norm", "edge_effective_rank"):
        assert pooled[name].attrs["tokens_per_cell"] == 2
        whole = found[name].values[0]
        wanted = _pairs(_pairs(whole).swapaxes(1, 2)).swapaxes(1, 2)
        assert np.allclose(pooled[name].values[0], wanted, rtol=1e-4, atol=1e-6, equal_nan=True)


def test_maps_of_the_first_prompts_only() -> None:
    many = analyze(make_tiny("llama"), [[3, 4, 5]] * 10, layers=[0], details=True)
    there = np.isfinite(many["walk_matrix"].values).any((1, 2, 3))
    assert np.array_equal(there, [True] * 8 + [False] * 2)
    assert many["walk_matrix"].attrs["prompts"] == 8
