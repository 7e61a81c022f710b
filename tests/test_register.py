"""What every registered metric owes: invariance, bounds, defined numbers, blocks like the whole."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from conwalk import dims, tolerance
from conwalk.connection import ConnectionWalk
from conwalk.metrics import ALL, Arrays, LayerData, Metric
from conwalk.theorems import gauge
from walk_cases import WalkCase, make_case

Change = Callable[[LayerData, int], LayerData]
DEPTH = 3
SHAPES: dict[str, dict[str, Any]] = {
    "encoder": {"heads": 4, "queries": 7, "keys": 7, "width_in": 10, "width_out": 10, "value": 3},
    "decoder": {"heads": 2, "group": 2, "queries": 7, "keys": 7, "width_in": 10, "width_out": 10,
                "value": 3, "kind": "causal"},
    "leaking": {"heads": 3, "queries": 6, "keys": 6, "width_in": 8, "width_out": 8, "value": 2,
                "kind": "leaking"},
    "wide": {"heads": 2, "queries": 5, "keys": 5, "width_in": 4, "width_out": 4, "value": 6},
    "one token": {"heads": 3, "queries": 1, "keys": 1, "width_in": 6, "width_out": 6, "value": 2},
    "cross": {"heads": 3, "queries": 4, "keys": 6, "width_in": 8, "width_out": 8, "value": 2},
}  # fmt: skip


def data_of(case: WalkCase, seed: int) -> LayerData:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(case.attention.shape, generator=generator, dtype=torch.float64)
    return LayerData(case.walk, case.x, case.walk(case.x), 0, scores)


def layers(shape: str) -> list[LayerData]:
    return [data_of(make_case(**SHAPES[shape], seed=seed), seed) for seed in range(DEPTH)]


def regauged(data: LayerData, seed: int) -> LayerData:
    return LayerData(gauge.change(data.walk, seed), data.value_input, data.output, 0, data.scores)


def rotated(data: LayerData, seed: int) -> LayerData:
    """An orthogonal change of the residual basis, the same for every layer."""
    walk, maps = data.walk, data.walk.transports
    generator = torch.Generator().manual_seed(99)
    noise = torch.randn(maps.width_in, maps.width_in, generator=generator, dtype=torch.float64)
    q = torch.linalg.qr(noise).Q
    b_o = None if walk.b_O is None else walk.b_O @ q
    turned = ConnectionWalk(walk.attention, q.T @ maps.W_V, maps.W_O @ q, maps.b_V, b_o)
    output = None if data.output is None else data.output @ q
    return LayerData(turned, data.value_input @ q, output, 0, data.scores)


def order(n_heads: int, group: int) -> list[int]:
    """A permutation of the heads that keeps groups together."""
    blocks = [list(range(g, g + group)) for g in range(0, n_heads, group)]
    return [h for block in reversed(blocks) for h in reversed(block)]


def permuted(data: LayerData, seed: int) -> LayerData:
    walk, maps = data.walk, data.walk.transports
    heads = order(walk.n_heads, maps.group)
    values = list(reversed(range(maps.n_kv_heads)))
    b_v = None if maps.b_V is None else maps.b_V[values]
    moved = ConnectionWalk(walk.attention[heads], maps.W_V[values], maps.W_O[heads], b_v, walk.b_O)
    scores = None if data.scores is None else data.scores[heads]
    return LayerData(moved, data.value_input, data.output, 0, scores)


def stacked(kept: Sequence[Arrays]) -> dict[str, Any]:
    return {
        name: torch.stack([k[name] for k in kept])
        if isinstance(part, Tensor)
        else [k[name] for k in kept]
        for name, part in kept[0].items()
    }


def measured(metric: Metric, data: Sequence[LayerData]) -> dict[str, Tensor]:
    """All numbers of a metric on some layers, the layer axis first."""
    if metric.needs in ("depth", "prompts"):
        return dict(metric.finish(stacked([metric.compute(d) for d in data])))
    each = [one_layer(metric, d) for d in data]
    return {name: torch.stack([e[name] for e in each]) for name in each[0]}


def one_layer(metric: Metric, data: LayerData) -> Arrays:
    if metric.needs == "singular values":
        return metric.compute(data.walk.transports.singular_values())
    if metric.needs == "weights":
        return metric.compute(data.walk.transports)
    found = metric.compute(data)
    return metric.finish(found) if metric.needs == "rows" else found


def head_axis(metric: Metric, name: str) -> int | None:
    quantity = next(q for q in metric.quantities if q.name == name)
    if dims.HEAD not in quantity.dims:
        return None
    lead = 0 if metric.needs == "prompts" else 1
    return lead + quantity.dims.index(dims.HEAD)


def assert_same(name: str, before: Tensor, after: Tensor) -> None:
    # roots and quotients of small differences keep the root of the precision
    limit = tolerance.rounding(torch.float64) ** 0.5
    assert torch.allclose(before, after, rtol=limit, atol=limit, equal_nan=True), name


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("change", [regauged, rotated], ids=["gauge", "residual basis"])
@pytest.mark.parametrize("metric", ALL, ids=lambda m: m.name)
def test_free_choices_change_no_number(metric: Metric, change: Change, shape: str) -> None:
    data = layers(shape)
    before = measured(metric, data)
    after = measured(metric, [change(d, seed) for seed, d in enumerate(data)])
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert_same(name, value, after[name])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("metric", ALL, ids=lambda m: m.name)
def test_a_permutation_of_heads_permutes_what_belongs_to_heads(metric: Metric, shape: str) -> None:
    data = layers(shape)
    before = measured(metric, data)
    after = measured(metric, [permuted(d, 0) for d in data])
    heads = order(data[0].walk.n_heads, data[0].walk.transports.group)
    for name, value in before.items():
        axis = head_axis(metric, name)
        expected = value if axis is None else value.index_select(axis, torch.tensor(heads))
        assert_same(name, expected, after[name])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("metric", ALL, ids=lambda m: m.name)
def test_numbers_are_inside_their_bounds_and_never_infinite(metric: Metric, shape: str) -> None:
    found = measured(metric, layers(shape))
    assert set(found) == {q.name for q in metric.quantities}
    slack = tolerance.rounding(torch.float64, 100)
    for quantity in metric.quantities:
        value = found[quantity.name]
        assert not bool(value.isinf().any()), quantity.name
        numbers = value[value.isfinite()]
        low, high = quantity.bounds
        if numbers.numel():
            assert low is None or float(numbers.min()) >= low - slack, quantity.name
            assert high is None or float(numbers.max()) <= high + slack, quantity.name


@pytest.mark.parametrize("shape", ["encoder", "decoder", "leaking", "cross"])
@pytest.mark.parametrize("metric", [m for m in ALL if m.needs == "rows"], ids=lambda m: m.name)
def test_blocks_of_rows_joined_are_the_whole(metric: Metric, shape: str) -> None:
    case = make_case(**SHAPES[shape], seed=4)
    whole = one_layer(metric, data_of(case, 0))
    blocks: list[Arrays] = []
    for first in range(0, case.attention.shape[1], 3):
        part = case.change(
            attention=case.attention[:, first : first + 3], y=case.y[first : first + 3]
        )
        blocks.append(metric.compute(LayerData(part.walk, case.x, None, first)))
    joined = {name: torch.cat([b[name] for b in blocks], -1) for name in blocks[0]}
    for name, value in metric.finish(joined).items():
        assert_same(name, whole[name], value)


@pytest.mark.parametrize("metric", [m for m in ALL if m.needs == "matrix"], ids=lambda m: m.name)
def test_metrics_of_the_walk_matrix_read_nothing_else(metric: Metric) -> None:
    for shape in ("encoder", "decoder"):
        data = data_of(make_case(**SHAPES[shape], seed=2), 0)
        matrix = data.walk.walk_matrix()
        alone = ConnectionWalk.from_transports(matrix[None], data.walk.transports.select([0]))
        for name, value in metric.compute(data).items():
            assert_same(name, value, metric.compute(LayerData(alone, data.value_input))[name])


def test_names_are_unique_and_every_quantity_is_described() -> None:
    quantities = [q for m in ALL for q in m.quantities]
    assert len({m.name for m in ALL}) == len(ALL)
    assert len({q.name for q in quantities}) == len(quantities)
    for quantity in quantities:
        assert quantity.symbol
        assert quantity.unit
        assert quantity.meaning
        assert quantity.section.startswith("Theory §")
        assert set(quantity.dims) <= {dims.HEAD, dims.TOKEN, dims.LAYER_TO}
