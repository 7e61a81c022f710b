"""The effective graphs of a layer and the lifted operator, against loops over dense matrices."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conwalk import tolerance
from conwalk.connection import ConnectionWalk, HeadTransports, graphs, lifted
from conwalk.errors import SelectionError, ShapeError


def make_walk(
    seed: int = 0,
    *,
    kv: int = 2,
    group: int = 2,
    queries: int = 4,
    keys: int = 4,
    scale: bool = False,
    gate: bool = False,
    causal: bool = False,
    width: int = 5,
    dtype: torch.dtype = torch.float64,
) -> tuple[ConnectionWalk, Tensor]:
    """A random stochastic walk and what its values are read from."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    scores = normal(kv * group, queries, keys)
    if causal:
        scores = scores.masked_fill(torch.ones(queries, keys).triu(1) > 0, -torch.inf)
    walk = ConnectionWalk(
        scores.softmax(-1),
        normal(kv, width, 3),
        normal(kv * group, 3, width),
        value_scale=normal(kv * group, keys) if scale else None,
        output_gate=normal(kv * group, queries, 3) if gate else None,
    )
    return walk.to(dtype=dtype), normal(keys, width).to(dtype)


def dense_maps(transports: HeadTransports) -> np.ndarray:
    return np.stack([transports.matrix(h).double().numpy() for h in range(transports.n_heads)])


def naive(walk: ConnectionWalk, x: Tensor, name: str) -> np.ndarray:
    attention, field = walk.attention.double().numpy(), x.double().numpy()
    maps = dense_maps(walk.transports)
    heads, queries, keys = attention.shape
    scale = (
        np.ones((heads, keys)) if walk.value_scale is None else walk.value_scale.double().numpy()
    )
    graph = np.zeros((queries, keys))
    for i in range(queries):
        for j in range(keys):
            carried = [attention[h, i, j] * scale[h, j] * field[j] @ maps[h] for h in range(heads)]
            graph[i, j] = {
                "mean": attention[:, i, j].mean(),
                "norm": sum(
                    attention[h, i, j] * abs(scale[h, j]) * np.linalg.norm(maps[h])
                    for h in range(heads)
                ),
                "value": sum(np.linalg.norm(c) for c in carried),
                "vector": np.linalg.norm(sum(carried)),
            }[name]
    return graph if name == "mean" else graph / graph.sum(1, keepdims=True)


# made into walks in the tests: hypothesis forbids strategies what the shape checks do
walks = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "kv": st.integers(1, 3),
        "group": st.integers(1, 2),
        "queries": st.integers(1, 5),
        "keys": st.integers(1, 5),
        "scale": st.booleans(),
    }
)


@pytest.mark.parametrize("name", graphs.GRAPHS)
@given(case=walks)
def test_a_graph_is_what_loops_over_dense_maps_give(name: str, case: dict) -> None:
    walk, x = make_walk(**case)
    found = graphs.effective_graph(walk, x, name)
    # a norm from a Gram matrix keeps half the digits where heads cancel
    slack = tolerance.rounding(torch.float64, 100) ** (0.5 if name in ("value", "vector") else 1)
    assert np.abs(found.numpy() - naive(walk, x, name)).max() <= slack


@pytest.mark.parametrize("name", graphs.GRAPHS)
@given(case=walks)
def test_rows_of_every_graph_sum_to_one(name: str, case: dict) -> None:
    total = graphs.effective_graph(*make_walk(**case), name).sum(-1)
    assert torch.allclose(total, torch.ones_like(total), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", graphs.GRAPHS)
def test_a_graph_knows_nothing_of_gauge_order_of_heads_or_basis(name: str) -> None:
    walk, x = make_walk(3, kv=4, group=1)
    generator = torch.Generator().manual_seed(1)
    mix = torch.randn(4, 3, 3, generator=generator, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(5, 5, generator=generator, dtype=torch.float64)).Q
    order = [2, 0, 3, 1]
    maps = walk.transports
    moved = ConnectionWalk(
        walk.attention[order],
        turn.mT @ (maps.W_V @ mix)[order],
        (torch.linalg.inv(mix) @ maps.W_O)[order] @ turn,
    )
    before = graphs.effective_graph(walk, x, name)
    after = graphs.effective_graph(moved, x @ turn, name)
    assert torch.allclose(before, after, rtol=1e-9, atol=0)


def test_heads_that_cancel_leave_no_vector_but_their_values() -> None:
    walk, x = make_walk(0, kv=1, group=2)
    maps = walk.transports
    opposed = ConnectionWalk(
        walk.attention[:1].expand(2, -1, -1), maps.W_V, torch.stack([maps.W_O[0], -maps.W_O[0]])
    )
    assert graphs.vector_graph(opposed, x).max() <= 1
    written = graphs.value_norms(opposed, x)
    assert torch.equal(written[0], written[1])
    cancelled = ConnectionWalk(
        torch.ones(2, 1, 2), maps.W_V.float(), opposed.transports.W_O.float()
    )
    graph = graphs.vector_graph(cancelled, torch.eye(2, 5))
    assert torch.equal(graph, torch.zeros(1, 2))


def test_long_prompts_are_read_some_keys_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    walk, x = make_walk(4, keys=7, queries=3)
    whole = graphs.vector_graph(walk, x)
    monkeypatch.setattr(graphs, "_CHUNK", 2 * walk.n_heads * 5)
    assert torch.allclose(graphs.vector_graph(walk, x), whole, rtol=1e-12)


def test_half_precision_is_summed_in_single() -> None:
    walk, x = make_walk(5, kv=3, group=3, dtype=torch.bfloat16)
    for name in graphs.GRAPHS:
        graph = graphs.effective_graph(walk, x, name)
        assert graph.dtype == torch.float32
    wanted = walk.attention.float().mean(0)
    assert torch.allclose(graphs.mean_graph(walk), wanted, rtol=1e-6)


def test_graphs_that_do_not_exist_are_refused() -> None:
    walk, x = make_walk(gate=True)
    with pytest.raises(SelectionError, match="median"):
        graphs.effective_graph(walk, x, "median")
    for name in ("value", "vector"):
        with pytest.raises(ShapeError, match="output gate"):
            graphs.effective_graph(walk, x, name)
    assert graphs.effective_graph(walk, x, "norm").shape == (4, 4)


def test_without_its_sink_a_row_shares_out_the_rest() -> None:
    graph = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.6, 0.1, 0.3]])
    wanted = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.25, 0.75]])
    assert torch.allclose(graphs.without_sink(graph), wanted)
    assert graph[0, 0] == 1
    other = torch.tensor([0.6 / 0.9, 0.0, 0.3 / 0.9])
    assert torch.allclose(graphs.without_sink(graph, sink=1)[2], other)


def test_the_uniform_kernel_spreads_over_the_keys_a_row_reaches() -> None:
    graph = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.6, 0.1, 0.3], [0.0, 0.0, 0.0]])
    wanted = torch.tensor([[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3], [0, 0, 0]])
    assert torch.equal(graphs.uniform_graph(graph), wanted)


@given(seed=st.integers(0, 10**6), kv=st.integers(1, 3), group=st.integers(1, 3))
def test_inner_products_of_maps_of_two_layers_need_no_dense_map(
    seed: int, kv: int, group: int
) -> None:
    first = make_walk(seed, kv=kv, group=group)[0].transports
    second = make_walk(seed + 1, kv=2, group=2)[0].transports
    wanted = np.einsum("hde,gde->hg", dense_maps(first), dense_maps(second))
    assert np.allclose(lifted.cross_gram(first, second).numpy(), wanted, rtol=1e-9, atol=1e-9)
    assert torch.allclose(lifted.cross_gram(first, first), first.gram(), rtol=1e-9, atol=1e-9)


@given(seed=st.integers(0, 10**6), scale=st.booleans(), keys=st.integers(1, 4))
def test_the_lifted_distance_is_that_of_the_dense_operators(
    seed: int, scale: bool, keys: int
) -> None:
    first = make_walk(seed, scale=scale, keys=keys)[0]
    second = make_walk(seed + 1, kv=3, group=1, scale=scale, keys=keys)[0]
    a, b = first.to_dense().numpy(), second.to_dense().numpy()
    size = np.sqrt((np.sum(a * a) + np.sum(b * b)) / 2)
    found = float(lifted.lifted_distance(first, second))
    assert abs(found - np.linalg.norm(a - b) / size) <= 1e-9
    assert float(lifted.lifted_distance(first, first)) == 0


def test_evened_walks_keep_their_maps_and_lose_their_choice() -> None:
    walk, _ = make_walk(causal=True, scale=True)
    even = lifted.evened(walk)
    assert even.transports is walk.transports
    assert even.value_scale is walk.value_scale
    rows = torch.arange(1, 5, dtype=torch.float64)
    wanted = torch.ones(4, 4, dtype=torch.float64).tril() / rows[:, None]
    assert torch.equal(even.attention, wanted.expand(4, 4, 4))


def test_operators_that_cannot_be_compared_are_refused() -> None:
    walk, _ = make_walk()
    with pytest.raises(ShapeError, match="tokens"):
        lifted.lifted_inner(walk, make_walk(keys=3)[0])
    with pytest.raises(ShapeError, match="output gate"):
        lifted.lifted_inner(walk, make_walk(gate=True)[0])
    with pytest.raises(ShapeError, match="same widths"):
        lifted.cross_gram(walk.transports, make_walk(width=6)[0].transports)
