"""Transport metrics against naive dense matrices, known answers, bounds and invariances."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conwalk import tolerance
from conwalk.connection import ConnectionWalk, HeadTransports
from conwalk.connection.composition import composition, composition_by_chance
from conwalk.connection.edge_spectra import edge_rank_limit, edge_singular_values, sample_edges
from conwalk.connection.eigenvalues import (
    eigenvalues,
    log_modulus_spread,
    log_modulus_spread_by_chance,
)
from conwalk.connection.random_maps import haar_maps
from conwalk.connection.reflection import antisymmetric_share, antisymmetric_share_by_chance
from conwalk.connection.stretch import Stretch
from conwalk.connection.subspaces import principal_bases
from conwalk.errors import AbsentEdgeError, ShapeError
from conwalk.metrics import (
    LayerData,
    Metric,
    data_isometry,
    edge_isometry,
    eigen_spread,
    isometry,
    reflection,
)
from conwalk.metrics import composition as compositions
from conwalk.metrics import spectral_shape as shape
from dense_reference import edge_map, head_maps
from walk_cases import WalkCase, make_case, walk_cases

SPECTRAL = (isometry.METRIC, shape.METRIC)
OF_WEIGHTS = (compositions.WITHIN, eigen_spread.METRIC, reflection.METRIC)
OF_LAYER = (data_isometry.METRIC, edge_isometry.METRIC)
SIZES = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(2, 7), st.integers(1, 4))


def layer(case: WalkCase) -> LayerData:
    return LayerData(case.walk, case.x, case.walk(case.x))


def measure(metric: Metric, case: WalkCase) -> dict[str, Tensor]:
    given = layer(case)
    if metric.needs == "singular values":
        return dict(metric.compute(given.walk.transports.singular_values()))
    return dict(metric.compute(given.walk.transports if metric.of_weights else given))


def orthogonal(size: int, seed: int = 0, count: int = 1) -> Tensor:
    seeded = torch.Generator().manual_seed(seed)
    noise = torch.randn(count, size, size, generator=seeded, dtype=torch.float64)
    return torch.linalg.qr(noise).Q


def close(found: Tensor, expected: object, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    np.testing.assert_allclose(found.numpy(force=True), expected, rtol=rtol, atol=atol)


@given(SIZES, st.integers(0, 999))
def test_shape_of_the_spectrum_by_dense_svd(sizes: tuple[int, int, int, int], seed: int) -> None:
    heads, group, width, value = sizes
    case = make_case(
        heads, group, width_in=width, width_out=width, value=min(value, width), seed=seed
    )
    found = measure(shape.METRIC, case) | measure(isometry.METRIC, case)
    k = min(value, width)
    for h, dense in enumerate(head_maps(case.W_V, case.W_O)):
        left, sigma, right = np.linalg.svd(dense)
        sigma = sigma[:k]
        nearest = sigma.mean() * left[:, :k] @ right[:k]
        distance = np.linalg.norm(dense - nearest) / np.linalg.norm(dense)
        assert float(found["isometry_distance"][h]) == pytest.approx(distance, abs=1e-7)
        rho = sigma.sum() / np.sqrt(k * (sigma**2).sum())
        assert float(found["rho"][h]) == pytest.approx(rho)
        assert distance**2 == pytest.approx(1 - rho**2, abs=1e-9)
        fourth = np.linalg.norm(dense @ dense.T) ** 2
        expected = {
            "participation_ratio": np.linalg.norm(dense) ** 4 / (k * fourth),
            "condition_number": sigma[0] / sigma[-1],
            "stable_rank": np.linalg.norm(dense) ** 2 / np.linalg.norm(dense, 2) ** 2,
            "flatness": np.prod(sigma) ** (1 / k) / sigma.mean(),
            "singular_variation": sigma.std() / sigma.mean(),
        }
        for name, value_of in expected.items():
            assert float(found[name][h]) == pytest.approx(value_of, rel=1e-6, abs=1e-7), name


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_scaled_isometry_has_the_shape_of_one(scale: float) -> None:
    q = orthogonal(6, count=2)
    sigma = HeadTransports(scale * q[:, :, :3], q[:, :3]).singular_values()
    found = dict(shape.METRIC.compute(sigma)) | dict(isometry.METRIC.compute(sigma))
    expected = {
        "rho": 1.0, "isometry_distance": 0.0, "participation_ratio": 1.0, "condition_number": 1.0,
        "stable_rank": 3.0, "flatness": 1.0, "singular_variation": 0.0,
    }  # fmt: skip
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        close(found[name], [value, value])


def test_shape_of_a_zero_map_and_of_one_that_lacks_directions() -> None:
    found = shape.METRIC.compute(torch.tensor([[0.0, 0.0], [3.0, 0.0]], dtype=torch.float64))
    expected = {
        "isometry_distance": [1.0, np.sqrt(0.5)],
        "participation_ratio": [0.0, 0.5],
        "condition_number": [np.nan, np.nan],
        "stable_rank": [0.0, 1.0],
        "flatness": [0.0, 0.0],
        "singular_variation": [np.nan, 1.0],
    }
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        close(found[name], values)


def dense_defect(x: np.ndarray, dense: np.ndarray) -> float:
    """Least relative distance of G from s·I in the metric of C, found by solving for s."""
    values, vectors = np.linalg.eigh(x.T @ x)
    root = vectors @ np.diag(np.sqrt(values.clip(0))) @ vectors.T
    target, one = root @ dense @ dense.T @ root, root @ root
    s = (target * one).sum() / (one * one).sum()
    return np.linalg.norm(target - s * one) ** 2 / np.linalg.norm(target) ** 2


@given(SIZES, st.integers(2, 12), st.integers(0, 999))
def test_isometry_on_data_by_dense_matrices(
    sizes: tuple[int, int, int, int], tokens: int, seed: int
) -> None:
    heads, group, width, value = sizes
    case = make_case(
        heads, group, tokens, tokens, width_in=width, width_out=4, value=value, seed=seed
    )
    found = measure(data_isometry.METRIC, case)
    x = case.x.numpy()
    for h, dense in enumerate(head_maps(case.W_V, case.W_O)):
        ratios = np.linalg.norm(x @ dense, axis=1) / np.linalg.norm(x, axis=1)
        close(found["stretch_variation"][h], ratios.std() / ratios.mean(), atol=1e-6)
        close(found["data_isometry_defect"][h], dense_defect(x, dense), atol=1e-7)


def test_isometry_on_data_counts_what_scales_the_values() -> None:
    case = make_case(heads=2, group=2, scale=True, seed=3)
    assert case.value_scale is not None
    found = measure(data_isometry.METRIC, case)
    x = case.x.numpy()
    for h, dense in enumerate(head_maps(case.W_V, case.W_O)):
        moved = x @ dense * case.value_scale[h].numpy()[:, None]
        ratios = np.linalg.norm(moved, axis=1) / np.linalg.norm(x, axis=1)
        close(found["stretch_variation"][h], ratios.std() / ratios.mean())
        before, after = x @ x.T, moved @ moved.T
        cka = (before * after).sum() / np.linalg.norm(before) / np.linalg.norm(after)
        close(found["data_isometry_defect"][h], 1 - cka**2)


def test_isometry_on_data_is_undefined_where_the_receiver_gates() -> None:
    found = measure(data_isometry.METRIC, make_case(heads=2, gate=True))
    assert all(value.shape == (2,) and value.isnan().all() for value in found.values())


def test_isometry_on_data_of_isometries_of_one_token_and_of_zeros() -> None:
    q = orthogonal(4, count=2)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[2] = 0.0
    whole = Stretch.of(x, HeadTransports(2 * q, q))
    close(whole.variation(), [0.0, 0.0], atol=1e-7)
    close(whole.similarity(), [1.0, 1.0])
    close(whole.ratios(), [[2.0, 2.0, np.nan, 2.0, 2.0]] * 2)
    single = Stretch.of(x[:1], HeadTransports(q[:, :, :2], q[:, :2]))
    close(single.variation(), [0.0, 0.0])
    close(single.similarity(), [1.0, 1.0])
    for nothing in (
        Stretch.of(0 * x, HeadTransports(q, q)),
        Stretch.of(x, HeadTransports(0 * q, q)),
    ):
        assert nothing.variation().isnan().all()
        assert nothing.similarity().isnan().all()


def projector(columns: np.ndarray) -> np.ndarray:
    left, sigma, _ = np.linalg.svd(columns, full_matrices=False)
    basis = left[:, sigma > 1e-9 * sigma.max(initial=0.0)]
    return basis @ basis.T


@given(SIZES, st.integers(0, 999), st.booleans())
def test_composition_by_dense_projectors(
    sizes: tuple[int, int, int, int], seed: int, deficient: bool
) -> None:
    heads, group, width, value = sizes
    case = make_case(heads, group, width_in=width, width_out=width, value=value, seed=seed)
    if deficient and value > 1:
        case.W_V[0, :, 0] = case.W_V[0, :, 1]
    later = make_case(heads + 1, group, width_in=width, width_out=3, value=value + 1, seed=seed + 1)
    for readers in (case, later):
        found = composition(case.walk.transports, readers.walk.transports)
        into = [projector(m) for m in head_maps(readers.W_V, readers.W_O)]
        for h, dense in enumerate(head_maps(case.W_V, case.W_O)):
            written = projector(dense.T)
            share = [np.trace(written @ p) / round(np.trace(written)) for p in into]
            close(found[h], share, atol=1e-7)
    within = measure(compositions.WITHIN, case)
    square = composition(case.walk.transports, case.walk.transports)
    close(within["self_composition"], square.diagonal().numpy())
    close(within["layer_composition"], square.mean(1).numpy())
    close(within["composition_chance"], min(value, width) / width)


def test_composition_of_equal_and_of_orthogonal_subspaces() -> None:
    q = orthogonal(6)[0]
    one, other = q[:, :2], q[:, 2:4]
    writers = HeadTransports(torch.stack([one, one]), torch.stack([one.mT, 0 * one.mT]))
    readers = HeadTransports(torch.stack([one, other]), torch.stack([one.mT, one.mT]))
    close(composition(writers, readers), [[1.0, 0.0], [np.nan, np.nan]])


def test_composition_of_random_heads_is_chance() -> None:
    case = make_case(heads=16, width_in=30, width_out=30, value=6, seed=1)
    shares = composition(case.walk.transports, case.walk.transports)
    assert float(shares.mean()) == pytest.approx(composition_by_chance(30, 6), rel=0.03)


def test_composition_needs_one_residual_stream() -> None:
    case = make_case(width_in=5, width_out=4)
    with pytest.raises(ShapeError, match="width 4 and the readers read width 5"):
        composition(case.walk.transports, case.walk.transports)


def test_composition_of_a_layer_with_the_next() -> None:
    metric = compositions.ACROSS
    layers = [make_case(heads=2, group=2, seed=s) for s in range(3)]
    kept = [metric.compute(layer(case)) for case in layers]
    found = metric.finish({name: torch.stack([k[name] for k in kept]) for name in kept[0]})
    assert all(values.shape == (3, 4) for values in found.values())
    for at in range(2):
        shares = composition(layers[at].walk.transports, layers[at + 1].walk.transports)
        close(found["next_composition"][at], shares.mean(1).numpy())
        close(found["next_composition_best"][at], shares.amax(1).numpy())
    assert all(values[2].isnan().all() for values in found.values())


def test_composition_of_a_layer_with_one_of_another_width_is_undefined() -> None:
    metric = compositions.ACROSS
    kept = metric.compute(layer(make_case(width_in=5, width_out=4)))
    found = metric.finish({name: torch.stack([k, k]) for name, k in kept.items()})
    assert all(values.isnan().all() for values in found.values())


@given(SIZES, st.integers(0, 999))
def test_principal_bases_rebuild_the_maps(sizes: tuple[int, int, int, int], seed: int) -> None:
    heads, group, width, value = sizes
    case = make_case(heads, group, width_in=width, width_out=width + 1, value=value, seed=seed)
    bases = principal_bases(case.walk.transports)
    for h, dense in enumerate(head_maps(case.W_V, case.W_O)):
        middle = bases.inputs[h].numpy().T @ dense @ bases.outputs[h].numpy()
        np.testing.assert_allclose(middle, np.diag(np.diag(middle)), atol=1e-10)
        rebuilt = bases.inputs[h].numpy() @ middle @ bases.outputs[h].numpy().T
        np.testing.assert_allclose(rebuilt, dense, atol=1e-10)
        assert int(bases.rank[h]) == np.linalg.matrix_rank(dense)


@given(SIZES, st.integers(0, 999))
def test_antisymmetric_share_by_the_dense_polar_factor(
    sizes: tuple[int, int, int, int], seed: int
) -> None:
    heads, group, width, value = sizes
    case = make_case(heads, group, width_in=width, width_out=width, value=value, seed=seed)
    found = antisymmetric_share(case.walk.transports)
    for h, dense in enumerate(head_maps(case.W_V, case.W_O)):
        left, _, right = np.linalg.svd(dense)
        rank = min(width, value)
        polar = left[:, :rank] @ right[:rank]
        share = np.linalg.norm((polar - polar.T) / 2) ** 2 / np.linalg.norm(polar) ** 2
        close(found[h], share, atol=1e-7)


def test_antisymmetric_share_of_reflections_and_quarter_turns() -> None:
    q = orthogonal(6)[0]
    subspace = q[:, :4]
    mirror = torch.diag(torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=torch.float64))
    turn = torch.block_diag(*[torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)] * 2)
    elsewhere = HeadTransports(q[None, :, :3], q[None, :, 3:].mT)
    maps = HeadTransports(
        torch.stack([subspace @ mirror, subspace @ turn, subspace, 0 * subspace]),
        torch.stack([3 * subspace.mT] * 4),
    )
    close(antisymmetric_share(maps), [0.0, 1.0, 0.0, np.nan])
    close(antisymmetric_share(elsewhere), [0.5])


def test_antisymmetric_share_by_chance() -> None:
    case = make_case(heads=400, width_in=5, width_out=5, value=2, seed=2)
    shares = antisymmetric_share(case.walk.transports)
    error = float(shares.std()) / 20
    assert float(shares.mean()) == pytest.approx(antisymmetric_share_by_chance(5), abs=4 * error)


def test_maps_between_spaces_have_neither_eigenvalues_nor_an_antisymmetric_part() -> None:
    maps = make_case(width_in=5, width_out=4).walk.transports
    with pytest.raises(ShapeError, match="eigenvalues"):
        eigenvalues(maps)
    with pytest.raises(ShapeError, match="antisymmetric"):
        antisymmetric_share(maps)


@given(SIZES, st.integers(0, 999))
def test_eigenvalues_are_those_of_the_dense_maps(
    sizes: tuple[int, int, int, int], seed: int
) -> None:
    heads, group, width, value = sizes
    k = min(value, width)
    case = make_case(heads, group, width_in=width, width_out=width, value=value, seed=seed)
    found = measure(eigen_spread.METRIC, case)
    for h, dense in enumerate(head_maps(case.W_V, case.W_O)):
        moduli = np.sort(np.abs(np.linalg.eigvals(dense)))[::-1][:k]
        close(found["eigen_spread"][h], np.log(moduli).std(), rtol=1e-4, atol=1e-5)
    close(found["eigen_zero_share"], np.full(heads * group, 1 - k / value))


def test_eigenvalues_that_are_zero_are_counted_not_logged() -> None:
    q = orthogonal(5)[0]
    diagonals = torch.tensor([[4.0, 1.0, 0.0], [2.0, 0.0, 0.0], [3.0, 3.0, -3.0], [0.0, 0.0, 0.0]])
    maps = HeadTransports(
        q[:, :3].expand(4, 5, 3), torch.diag_embed(diagonals.double()) @ q[:, :3].mT
    )
    found = eigen_spread.METRIC.compute(maps)
    close(found["eigen_spread"], [np.log(2), 0.0, 0.0, np.nan], atol=1e-8)
    close(found["eigen_zero_share"], [1 / 3, 2 / 3, 0.0, 1.0])


def test_eigen_spread_needs_no_inner_product() -> None:
    case = make_case(heads=2, group=2, width_in=6, width_out=6, value=3, seed=4)
    basis = torch.randn(6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    moved = case.change(W_V=torch.linalg.inv(basis) @ case.W_V, W_O=case.W_O @ basis)
    for name, value in measure(eigen_spread.METRIC, case).items():
        close(measure(eigen_spread.METRIC, moved)[name], value.numpy(), rtol=1e-6)


@pytest.mark.parametrize(("width", "value"), [(24, 6), (40, 20), (12, 12), (5, 9)])
def test_eigen_spread_by_chance_is_that_of_whole_gaussian_factors(width: int, value: int) -> None:
    case = make_case(heads=600, width_in=width, width_out=width, value=value, seed=5)
    spread, _ = log_modulus_spread(eigenvalues(case.walk.transports))
    mean, sd = log_modulus_spread_by_chance(width, value, draws=600)
    assert float(spread.mean()) == pytest.approx(mean, abs=4 * sd * (2 / 600) ** 0.5)
    assert float(spread.std()) == pytest.approx(sd, rel=0.25)


@given(walk_cases())
def test_singular_values_of_edges_are_those_of_their_dense_transports(case: WalkCase) -> None:
    walk = case.walk
    total = walk.walk_matrix()
    queries, keys = (total.abs() > 1e-3).nonzero().unbind(1)
    if not len(queries):
        return
    found = edge_singular_values(walk, queries, keys).numpy()
    assert found.shape == (len(queries), edge_rank_limit(walk))
    for e, (i, j) in enumerate(zip(queries.tolist(), keys.tolist(), strict=True)):
        dense = edge_map(case.attention, case.W_V, case.W_O, i, j, **case.extras)
        sigma = np.linalg.svd(dense / float(total[i, j]), compute_uv=False)
        limit = found.shape[1]
        # the size of all terms: heads may cancel
        size = np.linalg.norm(
            edge_map(*(t.abs() for t in (case.attention, case.W_V, case.W_O)), i, j)
        )
        scale = 1e-10 * (sigma[0] + size * 1e3 / abs(float(total[i, j])))
        np.testing.assert_allclose(found[e], sigma[:limit], atol=scale)
        np.testing.assert_allclose(sigma[limit:], 0.0, atol=scale)


def test_an_absent_edge_has_no_singular_values() -> None:
    walk = make_case(kind="causal").walk
    with pytest.raises(AbsentEdgeError, match="no edge from key 2 to query 1"):
        edge_singular_values(walk, torch.tensor([3, 1]), torch.tensor([0, 2]))


def test_edges_are_drawn_as_often_as_their_weight_says() -> None:
    weights = torch.tensor([[0.0, 3.0, 0.0], [1.0, 0.0, 4.0]])
    seeded = torch.Generator().manual_seed(0)
    queries, keys = sample_edges(weights, 8000, seeded)
    drawn = torch.zeros(2, 3).index_put((queries, keys), torch.ones(8000), accumulate=True)
    assert not drawn[weights == 0].any()
    close(drawn / 1000, weights.numpy(), rtol=0, atol=0.2)
    again = sample_edges(weights, 8000, torch.Generator().manual_seed(0))
    assert torch.equal(again[0], queries)
    assert not len(sample_edges(0 * weights, 5, seeded)[0])


def test_edges_of_a_single_head_are_as_isometric_as_the_head() -> None:
    case = make_case(heads=1, kind="causal", width_in=6, width_out=6, value=3)
    found = measure(edge_isometry.METRIC, case)
    close(found["edge_rho"], measure(isometry.METRIC, case)["rho"][0].numpy())
    close(found["edge_rho_error"], 0.0)


def test_error_of_the_sample_mean_is_that_of_repeated_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = make_case(heads=4, queries=8, keys=8, width_in=9, width_out=9, seed=7)
    means, errors = [], []
    for seed in range(60):
        monkeypatch.setattr(edge_isometry, "_SEED", seed)
        found = measure(edge_isometry.METRIC, case)
        means.append(float(found["edge_rho"]))
        errors.append(float(found["edge_rho_error"]))
    assert np.std(means) == pytest.approx(np.mean(errors), rel=0.3)


def test_gaussian_edges_are_as_isometric_as_chance() -> None:
    case = make_case(heads=6, queries=6, keys=6, width_in=24, width_out=24, value=4, seed=8)
    found = measure(edge_isometry.METRIC, case)
    assert float(found["edge_rho"]) == pytest.approx(float(found["edge_rho_chance"]), abs=0.05)
    ceiling = haar_maps(case.walk.transports, torch.Generator().manual_seed(0))
    single = ConnectionWalk.from_transports(case.attention, ceiling).heads[0]
    edges = edge_isometry.METRIC.compute(LayerData(single, case.x, single(case.x)))
    close(edges["edge_rho"], 1.0)
    assert float(edges["edge_rho_chance"]) < 0.99


@pytest.mark.parametrize("group", [1, 2])
def test_the_chance_of_edges_gives_each_head_a_map_of_its_norm_whatever_its_number(
    group: int,
) -> None:
    case = make_case(heads=3, group=group, queries=6, keys=6, bias=False, scale=True, seed=11)
    sizes = torch.arange(1.0, 3 * group + 1, dtype=torch.float64) ** 3
    case = case.change(W_O=case.W_O * sizes[:, None, None])
    order = [2, 0, 1]
    heads = [a * group + m for a in order for m in reversed(range(group))]
    mixed = case.change(
        attention=case.attention[heads],
        W_V=case.W_V[order],
        W_O=case.W_O[heads],
        value_scale=case.value_scale[heads],
    )
    before, after = (measure(edge_isometry.METRIC, c) for c in (case, mixed))
    for name, value in before.items():
        close(after[name], value.numpy())
    part = edge_isometry._by_chance(case.walk, torch.Generator().manual_seed(0))
    places = [int((case.attention == a).all(-1).all(-1).nonzero()) for a in part.attention]
    close(part.transports.norms(), case.walk.transports.norms()[places].numpy())


def test_a_walk_without_edges_has_no_isometry_of_edges() -> None:
    case = make_case()
    found = measure(edge_isometry.METRIC, case.change(attention=0 * case.attention))
    assert all(value.isnan() for value in found.values())


@given(walk_cases())
def test_every_number_is_within_its_bounds_and_none_is_infinite(case: WalkCase) -> None:
    for metric in (*SPECTRAL, *OF_WEIGHTS, *OF_LAYER):
        found = measure(metric, case)
        assert found.keys() == {q.name for q in metric.quantities}
        for quantity in metric.quantities:
            value = found[quantity.name]
            assert value.shape == ((case.walk.n_heads,) if quantity.dims else ()), quantity.name
            assert not value.isinf().any(), quantity.name
            low, high = quantity.bounds
            defined = value[~value.isnan()]
            assert low is None or bool((defined >= low - 1e-9).all()), quantity.name
            assert high is None or bool((defined <= high).all()), quantity.name


def gauge(case: WalkCase, seed: int) -> WalkCase:
    k = case.W_V.shape[-1]
    count = len(case.W_V)
    sizes = torch.linspace(0.5, 2.0, k, dtype=torch.float64)
    change = orthogonal(k, seed, count) * sizes @ orthogonal(k, seed + 1, count)
    back = torch.linalg.inv(change).repeat_interleave(case.group, 0)
    return case.change(W_V=case.W_V @ change, W_O=back @ case.W_O, b_V=None)


def turned(case: WalkCase, seed: int) -> WalkCase:
    q = orthogonal(case.W_V.shape[1], seed)[0]
    return case.change(W_V=q.mT @ case.W_V, W_O=case.W_O @ q, x=case.x @ q, b_O=None)


@given(walk_cases(square=True, gate=False), st.integers(0, 99))
def test_nothing_moves_under_gauge_or_an_orthogonal_change_of_basis(
    case: WalkCase, seed: int
) -> None:
    for moved in (gauge(case, seed), turned(case, seed)):
        for metric in (*SPECTRAL, *OF_WEIGHTS, data_isometry.METRIC):
            before, after = measure(metric, case), measure(metric, moved)
            for name, value in before.items():
                conditioned = value.abs() < 1 / tolerance.rounding(torch.float32)
                was, now = (torch.where(conditioned, v, torch.nan) for v in (value, after[name]))
                close(now, was.numpy(), rtol=1e-5, atol=1e-5)


def test_heads_may_come_in_any_order() -> None:
    case = make_case(heads=4, group=1, seed=9, width_in=6, width_out=6)
    order = torch.tensor([2, 0, 3, 1])
    mixed = case.change(attention=case.attention[order], W_V=case.W_V[order], W_O=case.W_O[order])
    for metric in (*SPECTRAL, *OF_WEIGHTS, data_isometry.METRIC):
        before, after = measure(metric, case), measure(metric, mixed.change(b_V=None))
        for name, value in before.items():
            close(after[name], (value[order] if value.dim() else value).numpy())


def test_half_precision_is_measured_in_single() -> None:
    case = make_case(heads=2, width_in=8, width_out=8, value=3, bias=False)
    parts = {n: getattr(case, n).bfloat16() for n in ("attention", "W_V", "W_O", "x")}
    half = case.change(**parts)
    rounded = half.change(**{n: p.double() for n, p in parts.items()})
    for metric in (*SPECTRAL, *OF_WEIGHTS, *OF_LAYER):
        exact = measure(metric, rounded)
        for name, value in measure(metric, half).items():
            if not name.startswith("edge_rho"):
                close(value.double(), exact[name].numpy(), rtol=1e-3, atol=1e-3)
