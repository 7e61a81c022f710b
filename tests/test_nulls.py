"""Null models: what each keeps, what it makes random, and that chance is what it says."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from conwalk import load, nulls
from conwalk.connection.random_maps import gaussian_maps, haar_maps, rotated_maps
from conwalk.errors import ShapeError, SourceError
from conwalk.metrics import LayerData
from conwalk.metrics.isometry import isometry_score
from conwalk.metrics.spectral_shape import participation_ratio, variation
from conwalk.models.fresh import fresh
from conwalk.nulls import compare, gaussian, kernels
from tiny_models import make_tiny
from walk_cases import WalkCase, make_case, walk_cases

OF_LAYERS = [null for null in nulls.ALL.values() if null.acts_on == "layer"]
KERNELS = [
    kernels.shuffled_tokens,
    kernels.position_only,
    kernels.uniform,
    kernels.uniform_with_sink,
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def layer(case: WalkCase) -> LayerData:
    return LayerData(case.walk, case.x, case.walk(case.x))


def close(found: Tensor, expected: object, atol: float = 1e-9) -> None:
    np.testing.assert_allclose(found.numpy(force=True), expected, rtol=1e-9, atol=atol)


def test_the_register_says_what_each_null_is() -> None:
    assert {"gaussian_factors", "fresh_weights", "shuffled_tokens", "shuffled_layers"} < set(
        nulls.ALL
    )
    for name, null in nulls.ALL.items():
        assert name == null.name
        assert null.keeps
        assert null.randomises
        assert null.section.startswith("Theory §")


@given(walk_cases(), st.sampled_from(OF_LAYERS), st.integers(0, 99))
def test_a_draw_is_a_whole_layer_again(case: WalkCase, null: nulls.Null, seed: int) -> None:
    data = layer(case)
    drawn = null.draw(data, seeded(seed))
    assert drawn.walk.shape == data.walk.shape
    assert drawn.value_input is data.value_input
    close(drawn.output, drawn.walk(case.x).numpy())
    assert torch.equal(drawn.output, null.draw(data, seeded(seed)).output)
    if null.deterministic:
        assert torch.equal(drawn.output, null.draw(data, seeded(seed + 1)).output)


@pytest.mark.parametrize("null", OF_LAYERS, ids=lambda null: null.name)
def test_another_seed_draws_another_layer_unless_the_null_is_deterministic(null: Any) -> None:
    data = layer(make_case(queries=6, keys=6, kind="causal"))
    one, other = (null.draw(data, seeded(seed)).output for seed in (0, 1))
    assert torch.equal(one, other) == null.deterministic
    assert not torch.allclose(one, data.output)


def naive_kernel(kind: Any, attention: np.ndarray, seed: int) -> np.ndarray:
    """The same kernels, row by row, in words."""
    heads, queries, keys = attention.shape
    present = (attention != 0).any(0)
    order = torch.randperm(keys, generator=seeded(seed)).numpy()
    result = np.zeros_like(attention)
    for h in range(heads):
        for i in range(queries):
            row, seen = attention[h, i], [j for j in range(keys) if present[i, j]]
            if kind is kernels.shuffled_tokens:
                ranked = sorted(seen, key=lambda j: order[j])
                new = {place: row[source] for place, source in zip(seen, ranked, strict=True)}
            elif kind is kernels.uniform:
                new = {j: row.sum() / len(seen) for j in seen}
            elif kind is kernels.uniform_with_sink:
                others = [j for j in seen if j != 0]
                new = {j: row[1:].sum() / len(others) for j in others} | {0: row[0]}
            else:
                new = {}
                for j in seen:
                    same = [
                        attention[h, a, b]
                        for a in range(queries)
                        for b in range(keys)
                        if a - b == i - j and present[a, b]
                    ]
                    new[j] = np.mean(same)
                total = sum(new.values())
                new = {j: w * row.sum() / total if total else 0.0 for j, w in new.items()}
            for j, weight in new.items():
                result[h, i, j] = weight
    return result


@given(walk_cases(), st.sampled_from(KERNELS), st.integers(0, 99))
def test_kernels_are_what_they_are_in_words(case: WalkCase, kernel: Any, seed: int) -> None:
    if bool((case.attention < 0).any()) and kernel is kernels.position_only:
        return  # the mean row of a signed walk may all but cancel
    found = kernel(layer(case), seeded(seed)).walk.attention
    close(found, naive_kernel(kernel, case.attention.numpy(), seed))


@given(walk_cases(), st.sampled_from(KERNELS), st.integers(0, 99))
def test_kernels_keep_the_mask_and_the_sums_of_rows(case: WalkCase, kernel: Any, seed: int) -> None:
    if bool((case.attention < 0).any()) and kernel is kernels.position_only:
        return
    found = kernel(layer(case), seeded(seed)).walk.attention
    assert not found[:, (case.attention == 0).all(0)].any()
    close(found.sum(-1), case.attention.sum(-1).numpy())


def test_shuffled_tokens_permute_the_columns_of_an_encoder() -> None:
    case = make_case(queries=7, keys=7)
    found = kernels.shuffled_tokens(layer(case), seeded(3)).walk.attention
    columns = [
        int((case.attention - found[..., j : j + 1]).abs().sum((0, 1)).argmin()) for j in range(7)
    ]
    assert sorted(columns) == list(range(7))
    assert columns != list(range(7))
    assert torch.equal(found, case.attention[..., columns])


def test_shuffled_tokens_keep_the_weights_of_rows_and_the_gates_of_edges() -> None:
    case = make_case(heads=3, queries=7, keys=7, kind="causal")
    drawn = kernels.shuffled_tokens(layer(case), seeded(1)).walk
    close(drawn.attention.sort(-1).values, case.attention.sort(-1).values.numpy())

    def gates(attention: Tensor) -> list[tuple[float, ...]]:
        return sorted(map(tuple, attention[:, 5].T.tolist()))

    assert gates(drawn.attention) == gates(case.attention)


def test_uniform_with_sink_of_uniform_attention_is_uniform() -> None:
    uniform = kernels.uniform(layer(make_case(queries=6, keys=6, kind="causal")))
    again = kernels.uniform_with_sink(uniform)
    close(again.walk.attention, uniform.walk.attention.numpy())
    rows = torch.arange(1, 7, dtype=torch.float64)
    close(uniform.walk.attention[0, :, 0], (1 / rows).numpy())


def test_a_position_only_walk_is_its_own_null() -> None:
    kernel = torch.tensor([5.0, 2.0, 1.0, 0.5, 0.25], dtype=torch.float64)
    offset = torch.arange(5)[:, None] - torch.arange(5)
    circulant = (kernel / kernel.sum())[offset % 5]
    case = make_case(heads=1, queries=5, keys=5).change(attention=circulant[None])
    close(kernels.position_only(layer(case)).walk.attention[0], circulant.numpy())


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_token_has_one_kernel(kernel: Any) -> None:
    data = layer(make_case(queries=1, keys=1))
    close(kernel(data, seeded()).walk.attention, data.walk.attention.numpy())


def test_a_walk_without_weights_stays_without() -> None:
    case = make_case()
    empty = layer(case.change(attention=0 * case.attention))
    for kernel in KERNELS:
        assert not kernel(empty, seeded()).walk.attention.any()


def test_factor_nulls_keep_the_scores_and_kernels_drop_them() -> None:
    case = make_case()
    data = LayerData(case.walk, case.x, case.walk(case.x), scores=case.attention.log())
    assert nulls.ALL["haar_factors"].draw(data, seeded()).scores is data.scores
    assert nulls.ALL["uniform"].draw(data, seeded()).scores is None


def brute_force(d: int, k: int, draws: int) -> Tensor:
    generator = seeded(5)
    factors = torch.randn(2, draws, d, k, generator=generator, dtype=torch.float64)
    return torch.linalg.svdvals(factors[0] @ factors[1].mT)[:, :k]


@pytest.mark.parametrize(("d", "k"), [(24, 4), (12, 8), (10, 10), (40, 1)])
def test_the_gaussian_null_is_that_of_whole_gaussian_factors(d: int, k: int) -> None:
    draws = 1500
    found = gaussian.singular_values(d, d, k, draws=draws, seed=1)
    whole = brute_force(d, k, draws)
    for statistic in (isometry_score, participation_ratio, variation, lambda s: s.square().sum(-1)):
        one, other = statistic(found), statistic(whole)
        error = (one.var() + other.var()).sqrt() / draws**0.5
        assert float((one.mean() - other.mean()).abs()) <= 4 * float(error) + 1e-12
        assert float(one.std()) == pytest.approx(float(other.std()), rel=0.15, abs=1e-12)


@pytest.mark.parametrize(("d", "k"), [(60, 6), (576, 64)])
def test_moments_and_rho_of_the_gaussian_null_are_those_of_the_theory(d: int, k: int) -> None:
    c = k / d
    sigma = gaussian.singular_values(d, d, k, draws=400, seed=2)
    fourth = sigma.pow(4).sum(-1) / (k * d**4)
    error = float(fourth.std()) / 20
    # E tr = k d² (d + k + 1)² with the (k + 1)-terms of the two Wishart factors
    assert float(fourth.mean()) * d**2 == pytest.approx(
        (1 + 2 * c + 2 / d + (k + 3) / d**2) * d**2, abs=4 * error * d**2
    )
    assert float(isometry_score(sigma).mean()) == pytest.approx((1 + c / 2) ** -0.5, abs=0.01)


def test_the_gaussian_null_pads_what_cannot_exist_and_repeats_itself() -> None:
    sigma = gaussian.singular_values(3, 7, 5, draws=2, seed=0)
    assert sigma.shape == (2, 5)
    assert bool((sigma[:, :3] > 0).all())
    assert not sigma[:, 3:].any()
    assert torch.equal(sigma, gaussian.singular_values(3, 7, 5, draws=2, seed=0))
    assert not torch.equal(sigma, gaussian.singular_values(3, 7, 5, draws=2, seed=1))


@given(walk_cases(), st.sampled_from([gaussian_maps, haar_maps]), st.integers(0, 99))
def test_random_maps_keep_shapes_sharing_and_norms(case: WalkCase, draw: Any, seed: int) -> None:
    maps = case.walk.transports
    drawn = draw(maps, seeded(seed))
    assert (drawn.n_kv_heads, drawn.group, drawn.width_in) == (
        maps.n_kv_heads, maps.group, maps.width_in,
    )  # fmt: skip
    close(drawn.norms() / maps.norms(), np.ones(maps.n_heads))
    assert drawn.b_V is maps.b_V


def test_gaussian_maps_are_distributed_like_the_gaussian_null() -> None:
    maps = make_case(heads=300, width_in=12, width_out=12, value=4).walk.transports
    drawn = isometry_score(gaussian_maps(maps, seeded()).singular_values())
    null = isometry_score(gaussian.singular_values(12, 12, 4, draws=300, seed=0))
    error = float((drawn.var() + null.var()).sqrt()) / 300**0.5
    assert float(drawn.mean()) == pytest.approx(float(null.mean()), abs=4 * error)


def test_haar_maps_are_isometries_without_a_preferred_direction() -> None:
    maps = make_case(heads=400, width_in=5, width_out=6, value=3).walk.transports
    drawn = haar_maps(maps, seeded())
    close(isometry_score(drawn.singular_values()), np.ones(400))
    # the mean over the group is 0 for Haar measure, and is not for QR as it comes
    means = drawn.W_V.mean(0) * 400**0.5 * 5**0.5
    assert float(means.abs().max()) < 4.5


def test_haar_maps_wider_than_their_space_have_the_rank_of_the_space() -> None:
    maps = make_case(heads=2, width_in=3, width_out=3, value=5).walk.transports
    sigma = haar_maps(maps, seeded()).singular_values()
    assert int((sigma > 1e-9).sum(-1).unique()) == 3


def test_rotated_maps_keep_the_singular_values_of_both_factors() -> None:
    case = make_case(heads=2, group=2, width_in=8, width_out=8, value=3)
    maps = case.walk.transports
    drawn = rotated_maps(maps, seeded())
    assert drawn.W_V is maps.W_V
    close(torch.linalg.svdvals(drawn.W_O), torch.linalg.svdvals(maps.W_O).numpy())
    assert not torch.allclose(drawn.singular_values(), maps.singular_values(), rtol=1e-2)


def test_rotating_gaussian_factors_changes_nothing_on_average() -> None:
    maps = make_case(heads=500, width_in=9, width_out=9, value=4).walk.transports
    before = isometry_score(maps.singular_values())
    after = isometry_score(rotated_maps(maps, seeded()).singular_values())
    error = float((before.var() + after.var()).sqrt()) / 500**0.5
    assert float(before.mean()) == pytest.approx(float(after.mean()), abs=4 * error)


def test_shuffled_layers_move_all_arrays_alike() -> None:
    numbers = torch.arange(6.0)
    arrays = {"a": numbers, "b": numbers[:, None].expand(6, 2) * 10}
    shuffled = nulls.ALL["shuffled_layers"].draw(arrays, seeded())
    assert sorted(shuffled["a"].tolist()) == numbers.tolist()
    assert shuffled["a"].tolist() != numbers.tolist()
    assert torch.equal(shuffled["b"][:, 0], 10 * shuffled["a"])


def test_fresh_weights_are_those_of_the_architecture() -> None:
    model = load(make_tiny("llama").double().train())
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    one, same, other = (fresh(model, seed) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(3), expected)
    assert (one.weights_hash, one.dtype) == (same.weights_hash, torch.float64)
    assert len({m.weights_hash for m in (model, one, other)}) == 3
    assert type(one.module) is type(model.module)
    assert not one.module.training
    assert model.module.training
    shapes = {n: p.shape for n, p in model.module.named_parameters()}
    assert {n: p.shape for n, p in one.module.named_parameters()} == shapes
    value = one.module.layers[0].self_attn.v_proj.weight.detach()
    spread = model.module.config.initializer_range
    assert float(value.std()) == pytest.approx(spread, rel=0.1)
    assert torch.equal(one.module.norm.weight, torch.ones_like(one.module.norm.weight))


def test_the_null_of_fresh_weights_draws_models() -> None:
    model = load(make_tiny("gpt2"))
    draw = nulls.ALL["fresh_weights"].draw
    one, same, other = (draw(model, seeded(seed)) for seed in (0, 0, 1))
    assert one.weights_hash == same.weights_hash != other.weights_hash
    assert one.source.startswith(model.source)


def test_a_model_without_configuration_has_no_fresh_weights() -> None:
    with pytest.raises(SourceError, match="Linear is no model of transformers"):
        fresh(load(nn.Linear(2, 2)))


def test_comparing_with_draws() -> None:
    observed = np.array([[1.0, 2.0], [3.0, np.nan]])
    draws = np.random.default_rng(0).standard_normal((6, 2, 2))
    found = compare(torch.from_numpy(observed), list(draws))
    np.testing.assert_allclose(found.mean, draws.mean(0))
    np.testing.assert_allclose(found.sd, draws.std(0, ddof=1))
    np.testing.assert_allclose(found.z, (observed - draws.mean(0)) / draws.std(0, ddof=1))


def test_comparing_leaves_out_draws_without_a_number() -> None:
    draws = np.array([[1.0, np.nan, np.nan, 4.0], [3.0, 5.0, np.nan, 4.0]])
    found = compare(np.array([2.0, 5.0, 1.0, 5.0]), list(draws))
    np.testing.assert_allclose(found.mean, [2.0, 5.0, np.nan, 4.0])
    np.testing.assert_allclose(found.sd, [2**0.5, np.nan, np.nan, 0.0])
    np.testing.assert_allclose(found.z, [0.0, np.nan, np.nan, np.nan])


def test_comparing_one_number() -> None:
    found = compare(np.array(3.0), [torch.tensor(x, dtype=torch.bfloat16) for x in (1, 2, 3)])
    assert (float(found.mean), float(found.sd), float(found.z)) == (2.0, 1.0, 1.0)


def test_comparing_different_things_is_refused() -> None:
    with pytest.raises(ShapeError, match="shape"):
        compare(np.zeros(3), [np.zeros(3), np.zeros(2)])
    with pytest.raises(ShapeError, match="at least one draw"):
        compare(np.zeros(3), [])
