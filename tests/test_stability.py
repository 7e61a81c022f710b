"""Stability of the graph across depth: known answers, bounds, holes, and naive float64 loops."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conwalk import pipeline, tolerance
from conwalk.connection import ConnectionWalk, graph_spectra
from conwalk.metrics import (
    LayerData,
    Metric,
    fixed_kernel,
    layer_order,
    lifted_stability,
    stability,
)
from conwalk.metrics.depth_graphs import VARIANTS

ALL = (*stability.METRICS, layer_order.METRIC, *lifted_stability.METRICS)


def layer(
    seed: int,
    n: int = 5,
    *,
    keys: int | None = None,
    causal: bool = True,
    gate: bool = False,
    sharpness: float = 1.0,
) -> LayerData:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    m = n if keys is None else keys
    scores = sharpness * normal(4, n, m)
    if causal:
        scores = scores.masked_fill(torch.ones(n, m).triu(1) > 0, -torch.inf)
    walk = ConnectionWalk(
        scores.softmax(-1),
        normal(2, 6, 3),
        normal(4, 3, 6),
        output_gate=normal(4, n, 3) if gate else None,
    )
    return LayerData(walk, normal(m, 6))


def measure(metric: Metric, layers: list[LayerData | None]) -> dict[str, Tensor]:
    """Stack what is kept, with NaN or None where there is no layer, and finish."""
    kept: list[Any] = [None if data is None else metric.compute(data) for data in layers]
    example = next(k for k in kept if k is not None)
    stacked: dict[str, Any] = {}
    for name, part in example.items():
        parts = [None if k is None else k[name] for k in kept]
        if name == "walk":
            stacked[name] = parts
        else:
            hole = torch.full_like(part, torch.nan)
            stacked[name] = torch.stack([hole if p is None else p for p in parts])
    return dict(metric.finish(stacked))


def measure_all(layers: list[LayerData | None]) -> dict[str, Tensor]:
    return {name: v for metric in ALL for name, v in measure(metric, layers).items()}


def naive_graphs(data: LayerData) -> dict[str, np.ndarray]:
    attention, x = data.walk.attention.numpy(), data.value_input.numpy()
    mean = attention.mean(0)
    rest = mean.copy()
    rest[:, 0] = 0
    total = rest.sum(1, keepdims=True)
    value = np.zeros_like(mean)
    for h in range(len(attention)):
        value += attention[h] * np.linalg.norm(x @ data.walk.transports.matrix(h).numpy(), axis=1)
    return {
        "": mean,
        "_no_sink": np.divide(rest, total, out=np.zeros_like(rest), where=total > 0),
        "_value": value / value.sum(1, keepdims=True),
    }


def naive_uniform(graph: np.ndarray) -> np.ndarray:
    reached = (graph > 0).astype(float)
    return reached / np.maximum(reached.sum(1, keepdims=True), 1)


def naive_tv(p: np.ndarray, q: np.ndarray) -> float:
    rows = 0.5 * np.abs(p - q).sum(1)
    counted = rows[(p.sum(1) > 0) | (q.sum(1) > 0)]
    return float(counted.mean()) if len(counted) else 0.0


@pytest.mark.parametrize("suffix", VARIANTS)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), causal=st.booleans())
def test_total_variation_in_depth_is_a_loop_over_layers(
    suffix: str, seed: int, n: int, causal: bool
) -> None:
    layers = [layer(seed + k, n, causal=causal) for k in range(4)]
    found = measure_all(list(layers))
    graphs = [naive_graphs(data)[suffix] for data in layers]
    for i, p in enumerate(graphs):
        away = naive_tv(p, naive_uniform(p))
        assert float(found[f"depth_tv_uniform{suffix}"][i]) == pytest.approx(away, abs=1e-7)
        for j, q in enumerate(graphs):
            wanted = naive_tv(p, q)
            assert float(found[f"depth_tv_matrix{suffix}"][i, j]) == pytest.approx(wanted, abs=1e-7)
    for i, (p, q) in enumerate(itertools.pairwise(graphs)):
        away = (naive_tv(p, naive_uniform(p)) + naive_tv(q, naive_uniform(q))) / 2
        wanted = naive_tv(p, q)
        assert float(found[f"depth_tv{suffix}"][i]) == pytest.approx(wanted, abs=1e-7)
        ratio = wanted / away if away > 1e-12 else 0.0
        assert float(found[f"depth_tv_relative{suffix}"][i]) == pytest.approx(ratio, abs=1e-6)
    assert found[f"depth_tv{suffix}"][-1].isnan()


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 10),
    causal=st.booleans(),
    count=st.integers(1, 4),
    sharpness=st.sampled_from([0.0, 1.0, 9.0]),
)
def test_every_quantity_is_answered_within_its_bounds(
    seed: int, n: int, causal: bool, count: int, sharpness: float
) -> None:
    layers = [layer(seed + k, n, causal=causal, sharpness=sharpness) for k in range(count)]
    for metric in ALL:
        found = measure(metric, list(layers))
        assert set(found) == {q.name for q in metric.quantities}
        for quantity in metric.quantities:
            values = found[quantity.name]
            assert values.shape == (count,) * (1 + len(quantity.dims))
            low, high = quantity.bounds
            known = values[values.isfinite()]
            assert not values.isinf().any()
            assert low is None or (known >= low).all(), quantity.name
            assert high is None or (known <= high).all(), quantity.name


@pytest.mark.parametrize("data", [layer(0, 9), layer(0, 9, sharpness=0.0), layer(0, 1)])
def test_identical_layers_do_not_move(data: LayerData) -> None:
    found = measure_all([data, data, data])
    for name, values in found.items():
        if "_z" in name:
            assert values.isnan().all()
        elif "uniform" not in name:
            slack = tolerance.rounding(torch.float64, 9 * 9)
            if "subspace" in name:
                slack /= bottom_gap(data, name)
            assert (values[~values.isnan()] <= slack).all(), name
            assert not values[:-1].isnan().any(), name


def bottom_gap(data: LayerData, name: str) -> float:
    """How far the bottom of the spectrum is from the rest: eigenvectors are as sharp as that."""
    suffix = next(s for s in ("_no_sink", "_value", "") if name.endswith(s))
    graph = torch.tensor(naive_graphs(data)[suffix])
    values = torch.linalg.eigvalsh(graph_spectra.normalised_laplacian(graph))
    return float(values.diff()[stability.BOTTOM - 1]) if len(values) > stability.BOTTOM else 1.0


def test_uniform_layers_are_at_their_uniform_kernel() -> None:
    found = measure(stability.TV_MATRIX, [layer(k, 6, sharpness=0.0) for k in range(3)])
    assert (found["depth_tv_uniform"] <= 1e-15).all()
    steps = measure(stability.TV, [layer(k, 6, sharpness=0.0) for k in range(3)])
    assert (steps["depth_tv_relative"][:-1] == 0).all()


def test_small_unrelated_deviations_from_uniform_look_stable_until_divided_by_their_size() -> None:
    layers = [layer(k, 40, causal=False, sharpness=0.1) for k in range(4)]
    found = measure(stability.TV, list(layers))
    assert (found["depth_tv"][:-1] < 0.05).all()
    ratio = found["depth_tv_relative"][:-1]
    assert torch.allclose(ratio, torch.full_like(ratio, math.sqrt(2)), rtol=0.03)


@pytest.mark.parametrize("metric", ALL, ids=lambda m: m.name)
def test_a_refused_layer_leaves_a_hole_and_nothing_is_measured_across_it(metric: Metric) -> None:
    layers: list[LayerData | None] = [layer(k, 9) for k in range(5)]
    whole = measure(metric, list(layers))
    layers[2] = None
    found = measure(metric, layers)
    there = [0, 1, 3, 4]
    for quantity in metric.quantities:
        name, values = quantity.name, found[quantity.name]
        assert values[2].isnan().all()
        if quantity.dims:
            assert values[:, 2].isnan().all()
            kept = values[there][:, there]
            assert torch.allclose(kept, whole[name][there][:, there], equal_nan=True), name
        elif "uniform" in name:
            assert torch.allclose(values[there], whole[name][there]), name
        elif "null" not in name and "_z" not in name:
            assert values[1].isnan()
            assert torch.allclose(values[[0, 3]], whole[name][[0, 3]]), name


def test_what_has_no_graph_is_nan_and_not_an_error() -> None:
    data = layer(0)
    walk = data.walk
    signed = ConnectionWalk.from_transports(walk.attention - 0.1, walk.transports)
    found = measure_all([LayerData(signed, data.value_input)] * 2)
    lifted = {q.name for m in lifted_stability.METRICS for q in m.quantities}
    for name, values in found.items():
        if name in lifted:
            assert values[0].isfinite().any(), name
        else:
            assert values.isnan().all(), name

    gated = measure_all([layer(0, gate=True), layer(1, gate=True)])
    assert gated["depth_tv"][0] > 0
    assert gated["depth_tv_value"].isnan().all()
    assert gated["depth_lifted"].isnan().all()
    assert gated["depth_lifted_matrix"].isnan().all()

    cross = measure_all([layer(k, 4, keys=6, causal=False) for k in range(3)])
    assert cross["depth_heat_1"].isnan().all()
    assert cross[f"depth_subspace_{stability.BOTTOM}_matrix"].isnan().all()
    for name in ("depth_tv", "depth_frobenius", "depth_spectrum", "depth_lifted"):
        assert (cross[name][:-1] > 0).all(), name


def test_a_kernel_without_a_bottom_of_its_own_is_no_yardstick() -> None:
    """Even attention over all keys has one eigenvalue 0 and all others 1: no bottom of 8."""
    name = f"depth_subspace_{stability.BOTTOM}"
    full = measure(stability.DIFFUSION, [layer(k, 12, causal=False) for k in range(3)])
    assert (full[name][:-1] > 0).all()
    assert full[f"{name}_relative"].isnan().all()
    causal = measure(stability.DIFFUSION, [layer(k, 12) for k in range(3)])
    ratio = causal[f"{name}_relative"][:-1]
    assert ((ratio > 0) & (ratio <= 2)).all()


def test_layers_that_reach_different_keys_have_their_own_uniform_kernels() -> None:
    layers = [layer(0, 6), layer(1, 6, causal=False)]
    found = measure_all(list(layers))
    for k, data in enumerate(layers):
        mean = naive_graphs(data)[""]
        wanted = naive_tv(mean, naive_uniform(mean))
        assert float(found["depth_tv_uniform"][k]) == pytest.approx(wanted, abs=1e-12)


@given(seed=st.integers(0, 10**6), count=st.integers(3, 6))
def test_the_shuffled_layers_null_is_that_of_all_orders(seed: int, count: int) -> None:
    layers = [layer(seed + k, 5) for k in range(count)]
    found = measure(layer_order.METRIC, list(layers))
    graphs = [naive_graphs(data)[""] for data in layers]
    d = np.array([[naive_tv(p, q) for q in graphs] for p in graphs])
    means = [
        np.mean([d[a, b] for a, b in itertools.pairwise(order)])
        for order in itertools.permutations(range(count))
    ]
    off = d[~np.eye(count, dtype=bool)]
    assert float(found["depth_tv_null_mean"][0]) == pytest.approx(off.mean())
    assert float(found["depth_tv_null_sd"][0]) == pytest.approx(off.std())
    order_z = (d.diagonal(1).mean() - np.mean(means)) / np.std(means)
    assert found["depth_tv_order_z"].numpy() == pytest.approx(order_z, rel=1e-6)
    wanted = (d.diagonal(1) - off.mean()) / off.std()
    assert found["depth_tv_z"][:-1].numpy() == pytest.approx(wanted, rel=1e-6)


def test_layers_that_drift_are_nearer_than_chance_and_shuffled_ones_are_not() -> None:
    generator = torch.Generator().manual_seed(0)
    base, goal = torch.randn(2, 4, 8, 8, generator=generator, dtype=torch.float64).unbind()
    data = layer(0, 8)

    def at(t: float) -> LayerData:
        attention = ((1 - t) * base + t * goal).softmax(-1)
        walk = ConnectionWalk.from_transports(attention, data.walk.transports)
        return LayerData(walk, data.value_input)

    drift = measure(layer_order.METRIC, [at(k / 9) for k in range(10)])
    assert drift["depth_tv_order_z"][0] < -3
    layers = [at(k / 9) for k in range(10)]
    orders = [torch.randperm(10, generator=generator).tolist() for _ in range(20)]
    mixed = [measure(layer_order.METRIC, [layers[k] for k in order]) for order in orders]
    z = torch.stack([found["depth_tv_order_z"][0] for found in mixed])
    assert z.mean().abs() < 3 / math.sqrt(20)
    assert 0.5 < z.std() < 1.5


@given(seed=st.integers(0, 10**6))
def test_two_layers_have_one_order_and_so_no_z(seed: int) -> None:
    found = measure(layer_order.METRIC, [layer(seed, 6), layer(seed + 1, 6)])
    assert float(found["depth_tv_null_sd"][0]) == 0
    for suffix in VARIANTS:
        assert found[f"depth_tv_z{suffix}"].isnan().all()
        assert found[f"depth_tv_order_z{suffix}"].isnan().all()


@given(share=st.floats(0.05, 0.9))
def test_layers_that_are_all_equally_far_apart_have_no_z(share: float) -> None:
    data = layer(0, 6)

    def at(key: int) -> LayerData:
        attention = torch.full((4, 6, 6), (1 - share) / 6, dtype=torch.float64)
        attention[..., key] += share
        walk = ConnectionWalk.from_transports(attention, data.walk.transports)
        return LayerData(walk, data.value_input)

    found = measure(layer_order.METRIC, [at(key) for key in range(5)])
    assert found["depth_tv_z"].isnan().all()
    assert found["depth_tv_order_z"].isnan().all()


@given(seed=st.integers(0, 10**6), n=st.integers(1, 4))
def test_the_lifted_curve_and_matrix_are_those_of_dense_operators(seed: int, n: int) -> None:
    layers = [layer(seed + k, n) for k in range(3)]
    found = measure_all(list(layers))
    dense = [data.walk.to_dense().numpy() for data in layers]
    for i, j in itertools.product(range(3), repeat=2):
        size = math.sqrt((np.sum(dense[i] ** 2) + np.sum(dense[j] ** 2)) / 2)
        wanted = np.linalg.norm(dense[i] - dense[j]) / size
        assert float(found["depth_lifted_matrix"][i, j]) == pytest.approx(wanted, abs=1e-7)
        if j == i + 1:
            assert float(found["depth_lifted"][i]) == pytest.approx(wanted, abs=1e-7)
    away = []
    for data, own in zip(layers, dense, strict=True):
        even = torch.tensor(naive_uniform(data.walk.attention.numpy().mean(0)))
        flat = ConnectionWalk.from_transports(even.expand(4, n, n), data.walk.transports)
        away.append(np.linalg.norm(own - flat.to_dense().numpy()))
    scale = (away[0] + away[1]) / 2
    wanted = np.linalg.norm(dense[0] - dense[1]) / scale if scale > 1e-6 else 0.0
    assert float(found["depth_lifted_relative"][0]) == pytest.approx(wanted, rel=1e-6, abs=1e-7)


def test_layers_between_other_spaces_are_not_compared() -> None:
    found = measure(lifted_stability.STEPS, [layer(0, 4), layer(1, 5), layer(2, 5)])
    assert found["depth_lifted"][0].isnan()
    assert found["depth_lifted"][1] > 0


def test_the_fixed_kernel_is_a_share_of_energy() -> None:
    prompts = [layer(k, 6) for k in range(3)]
    found = measure(fixed_kernel.METRIC, list(prompts))
    for suffix in VARIANTS:
        stack = np.stack([naive_graphs(data)[suffix] for data in prompts])
        mean, uniform = stack.mean(0), naive_uniform(stack.mean(0))
        variance = ((stack - mean) ** 2).sum() / 2
        energy = ((stack - uniform) ** 2).sum() / 3
        name = f"fixed_kernel_r2{suffix}"
        assert float(found[name]) == pytest.approx(1 - variance / energy)


def test_the_fixed_kernel_explains_all_of_equal_and_none_of_unrelated_graphs() -> None:
    data = layer(0, 6)
    same = measure(fixed_kernel.METRIC, [data] * 3)
    assert all(float(v) == pytest.approx(1) for v in same.values())
    apart = measure(fixed_kernel.METRIC, [layer(k, 30, sharpness=0.3) for k in range(6)])
    assert abs(float(apart["fixed_kernel_r2"])) < 0.05


@pytest.mark.parametrize("prompts", [[layer(0)], [layer(0, 1), layer(1, 1)]])
def test_one_prompt_or_one_token_says_nothing_about_a_fixed_kernel(prompts: list) -> None:
    assert all(v.isnan() for v in measure(fixed_kernel.METRIC, prompts).values())


def test_rounding_around_the_uniform_kernel_is_no_energy() -> None:
    even = torch.full((3, 7, 7), 1 / 7, dtype=torch.float64)
    noise = 1e-16 * torch.randn(3, 7, 7, generator=torch.Generator().manual_seed(0)).double()
    assert fixed_kernel.fixed_kernel_r2(even + noise).isnan()


def test_nothing_moves_with_gauge_head_order_or_basis() -> None:
    generator = torch.Generator().manual_seed(2)
    turn = torch.linalg.qr(torch.randn(6, 6, generator=generator, dtype=torch.float64)).Q
    order = [1, 0, 3, 2]

    def moved(data: LayerData) -> LayerData:
        maps, walk = data.walk.transports, data.walk
        mix = torch.randn(2, 3, 3, generator=generator, dtype=torch.float64)
        back = torch.linalg.inv(mix).repeat_interleave(2, 0)
        other = ConnectionWalk(
            walk.attention[order], turn.mT @ maps.W_V @ mix, (back @ maps.W_O)[order] @ turn
        )
        return LayerData(other, data.value_input @ turn)

    layers = [layer(k, 9) for k in range(4)]
    before, after = measure_all(list(layers)), measure_all([moved(data) for data in layers])
    for name, values in before.items():
        assert torch.allclose(values, after[name], rtol=1e-7, atol=1e-7, equal_nan=True), name


def test_a_trained_decoder_changes_little_and_in_order(smollm: Any) -> None:
    panel = [stability.TV, layer_order.METRIC]
    text = "The old lighthouse keeper climbed the stairs every evening to light the lamp. " * 5
    found = pipeline.analyze(smollm, [text], max_length=64, panel=panel)
    steps = found["depth_tv"].values[0]
    assert np.isnan(steps[-1])
    assert 0.15 < np.nanmean(steps) < 0.35
    assert found["depth_tv_order_z"].values.max() < -4
    # closer than chance also after near-uniform attention has had its advantage taken away
    assert np.nanmean(found["depth_tv_relative"].values) < 1
