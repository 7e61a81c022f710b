"""The walk: output, adjoint, walk matrix, gates and transports agree with naive loops."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import dense_reference as naive
from conwalk.connection import ConnectionWalk
from conwalk.errors import AbsentEdgeError, SelectionError
from conwalk.theorems import gauge
from dense_reference import assert_close, assert_is_operator
from walk_cases import WalkCase, make_case, walk_cases


def _terms(case: WalkCase) -> int:
    return case.attention.numel() + case.W_V.numel() + case.W_O.numel()


def _dense(case: WalkCase) -> np.ndarray:
    return naive.dense_walk(case.attention, case.W_V, case.W_O, **case.extras)


def _output(case: WalkCase) -> np.ndarray:
    """What the layer puts out, edge by edge."""
    _, queries, keys = case.attention.shape
    total = np.zeros(case.y.shape)
    for i in range(queries):
        for j in range(keys):
            edge = naive.edge_map(case.attention, case.W_V, case.W_O, i, j, **case.extras)
            bias = naive.edge_affine(case.attention, case.W_O, case.b_V, i, j, **case.extras)
            total[i] += case.x[j].numpy() @ edge + bias
        total[i] += 0.0 if case.b_O is None else case.b_O.numpy()
    return total


@given(walk_cases())
def test_linear_part_is_its_dense_matrix(case: WalkCase):
    assert_is_operator(case.walk, _dense(case), _dense(case.sizes))


@given(walk_cases())
def test_output_is_the_sum_over_edges(case: WalkCase):
    expected, size = _output(case), float(_output(case.sizes).max())
    walk = case.walk
    assert_close(walk(case.x), expected, _terms(case), size)
    assert_close(walk @ case.x + walk.affine, expected, _terms(case), size)
    batch = torch.stack([case.x, -case.x])[None]
    assert walk(batch).shape == (1, 2, *case.y.shape)
    assert_close(walk(batch)[0, 0], expected, _terms(case), size)


@given(walk_cases())
def test_adjoint_moves_to_the_other_side(case: WalkCase):
    walk = case.walk
    forward, back = walk @ case.x, walk.H @ case.y
    size = float((case.y.abs().flatten().numpy() @ _dense(case.sizes)).max() * case.x.norm(p=1))
    left, right = (forward * case.y).sum(), (case.x * back).sum()
    assert_close(left, right, _terms(case), size)
    assert walk.H.H is walk


def _omega(case: WalkCase, weighting: str) -> torch.Tensor:
    if weighting == "uniform":
        return torch.ones(len(case.W_O)).double() / len(case.W_O)
    norms = np.linalg.norm(naive.head_maps(case.W_V, case.W_O), axis=(1, 2))
    return torch.from_numpy(norms / norms.sum())


@given(walk_cases(), st.sampled_from(["uniform", "norm"]))
def test_walk_matrix_and_gates(case: WalkCase, weighting: str):
    walk = case.walk
    omega = _omega(case, weighting)
    expected = naive.walk_matrix(case.attention, omega)
    gates = walk.gate_field(weighting)
    assert_close(walk.head_weights(weighting), omega, _terms(case))
    size = naive.walk_matrix(case.attention.abs(), omega)
    assert_close(walk.walk_matrix(weighting), expected, _terms(case), size.max())
    for i in range(walk.n_queries):
        for j in range(walk.n_keys):
            if not case.attention[:, i, j].any():
                assert not gates[:, i, j].any()
                with pytest.raises(AbsentEdgeError, match=f"no edge from key {j} to query {i}"):
                    walk.gates(i, j, weighting)
                continue
            shares = omega * case.attention[:, i, j] / expected[i, j]
            # Signed weights that nearly cancel magnify the rounding of their sum.
            lost = float(shares.abs().max() * size[i, j] / abs(expected[i, j]))
            assert_close(gates[:, i, j], shares, _terms(case), lost)
            assert_close(walk.gates(i, j, weighting), shares, _terms(case), lost)


@given(walk_cases(), st.sampled_from(["uniform", "norm"]))
def test_walk_times_transport_is_what_the_edge_does(case: WalkCase, weighting: str):
    walk = case.walk
    steps = walk.walk_matrix(weighting)
    size = max(_dense(case.sizes).max(), _output(case.sizes).max())
    for i, j in steps.nonzero().tolist():
        edge = naive.edge_map(case.attention, case.W_V, case.W_O, i, j, **case.extras)
        bias = naive.edge_affine(case.attention, case.W_O, case.b_V, i, j, **case.extras)
        assert_close(steps[i, j] * walk.transport(i, j, weighting), edge, _terms(case), size)
        moved = steps[i, j] * walk.transport_affine(i, j, weighting)
        assert_close(moved, bias, _terms(case), size)


def test_negative_tokens_count_from_the_end():
    walk = make_case(scale=True, gate=True).walk
    assert torch.equal(walk.transport(-1, -2), walk.transport(3, 2))
    assert torch.equal(walk.gates(-1, 0), walk.gates(3, 0))


def test_rows_of_the_walk_sum_to_the_mean_row_sum():
    case = make_case(kind="leaking", heads=3)
    weights = torch.tensor([1.0, 2.0, 5.0])
    rows = case.attention.sum(-1)
    assert_close(case.walk.walk_matrix().sum(-1), rows.mean(0), 12)
    mean = (rows * (weights / 8)[:, None]).sum(0)
    assert_close(case.walk.walk_matrix(weights).sum(-1), mean, 12)
    assert_close(case.walk.walk_matrix(weights.numpy()).sum(-1), mean, 12)


def test_norm_weighting_keeps_a_head_without_a_map():
    case = make_case(heads=2)
    W_V = case.W_V.clone()
    W_V[0] = 0.0
    walk = case.change(W_V=W_V).walk
    omega = walk.head_weights("norm")
    assert 0 < omega[0] < omega[1]
    rebuilt = sum(
        walk.walk_matrix("norm")[1, j] * walk.transport_affine(1, j, "norm") for j in range(4)
    )
    assert case.b_O is not None
    assert_close(rebuilt + case.b_O, walk.affine[1], 64)
    nothing = case.change(W_V=torch.zeros_like(W_V)).walk
    assert nothing.head_weights("norm").tolist() == [0.5, 0.5]


@given(walk_cases(), st.integers(0, 2**16))
def test_gauge_moves_nothing(case: WalkCase, seed: int):
    walk = case.walk
    moved = gauge.change(walk, seed)
    size = float(_output(case.sizes).max())
    back = float((case.y.abs().flatten().numpy() @ _dense(case.sizes)).max())
    terms = _terms(case) * case.W_O.shape[1]
    assert_close(moved(case.x), walk(case.x), terms, size)
    assert_close(moved.affine, walk.affine, terms, size)
    assert_close(moved.H @ case.y, walk.H @ case.y, terms, back)
    weight = float(case.attention.abs().max())
    assert_close(moved.walk_matrix("norm"), walk.walk_matrix("norm"), terms, weight)
    i, j = walk.n_queries - 1, 0
    if case.attention[:, i, j].any():
        step = walk.walk_matrix()[i, j]
        found, wanted = (step * w.transport(i, j) for w in (moved, walk))
        assert_close(found, wanted, terms, float(_dense(case.sizes).max()))


def test_order_of_heads_does_not_matter():
    case = make_case(heads=4, scale=True, gate=True)
    order = [2, 0, 3, 1]
    assert case.b_V is not None
    assert case.value_scale is not None
    assert case.output_gate is not None
    moved = case.change(
        attention=case.attention[order],
        W_V=case.W_V[order],
        W_O=case.W_O[order],
        b_V=case.b_V[order],
        value_scale=case.value_scale[order],
        output_gate=case.output_gate[order],
    ).walk
    assert_close(moved(case.x), case.walk(case.x), 64)
    assert_close(moved.walk_matrix("norm"), case.walk.walk_matrix("norm"), 64)
    assert_close(moved.gates(2, 1, "norm"), case.walk.gates(2, 1, "norm")[order], 64)
    assert_close(moved.transport(2, 1), case.walk.transport(2, 1), 64)


def test_one_head_on_one_token_is_its_map():
    case = make_case(heads=1, queries=1, keys=1)
    walk = case.walk
    assert walk.attention.tolist() == [[[1.0]]]
    assert_close(walk.transport(0, 0), naive.head_maps(case.W_V, case.W_O)[0], 4)
    assert walk.gates(0, 0).tolist() == [1.0]
    assert_close(walk @ case.x, case.x @ walk.transport(0, 0), 16)


def test_causal_and_square():
    assert make_case(kind="causal").walk.is_causal
    assert not make_case().walk.is_causal
    ahead = torch.diag(torch.ones(3).double(), 1).expand(3, 4, 4)
    assert not make_case().change(attention=ahead).walk.is_causal
    assert not make_case(queries=3).walk.is_causal
    assert make_case().walk.is_square
    assert not make_case(queries=3).walk.is_square
    assert not make_case(width_out=3).walk.is_square


def test_numpy_and_torch_make_the_same_walk():
    case = make_case(scale=True, gate=True)
    arrays = [
        part.numpy()
        for part in (case.attention, case.W_V, case.W_O, case.b_V, case.b_O)
        if part is not None
    ]
    extras = {name: part.numpy() for name, part in case.extras.items()}
    walk = ConnectionWalk(*arrays, **extras)
    assert torch.equal(walk(case.x.numpy()), case.walk(case.x))


def test_walks_share_transports():
    case = make_case(group=2)
    first = case.walk
    second = ConnectionWalk.from_transports(
        case.attention.flip(0), first.transports, case.b_O, value_scale=case.value_scale
    )
    assert second.transports is first.transports
    expected = case.change(attention=case.attention.flip(0)).walk(case.x)
    assert torch.equal(second(case.x), expected)


def test_dtypes_are_kept_and_changed_on_request():
    case = make_case(scale=True, gate=True)
    single = case.walk.to(dtype=torch.float32)
    x = case.x.float()
    assert (single.dtype, single(x).dtype) == (torch.float32, torch.float32)
    assert (single @ x).dtype == (single.H @ case.y.float()).dtype == torch.float32
    assert single.walk_matrix("norm").dtype == single.transport(0, 0).dtype == torch.float32
    assert single.to(dtype=torch.float64)(case.x).dtype == torch.float64
    half = case.walk.to(dtype=torch.bfloat16)
    assert half(case.x.bfloat16()).dtype == half.gate_field("norm").dtype == torch.bfloat16
    assert make_case(bias=False).walk.to(dtype=torch.float32).b_O is None


@pytest.mark.parametrize("scale", [False, True])
def test_heads_are_walks_that_add_up(scale: bool):
    case = make_case(heads=2, group=2, scale=scale, gate=scale)
    walk = case.walk
    assert case.b_O is not None
    assert len(walk.heads) == 4
    parts = [head(case.x) for head in walk.heads]
    assert_close(torch.stack(parts).sum(0) + case.b_O, walk(case.x), 64)
    assert_close(walk.heads[1:3](case.x), parts[1] + parts[2], 64)
    assert_close(walk.heads[[0, 3]](case.x), parts[0] + parts[3], 64)
    assert_close(walk.heads[torch.tensor([3, 0])](case.x), parts[0] + parts[3], 64)
    assert_close(walk.heads[-1](case.x), parts[3], 64)
    assert walk.heads[2].n_heads == 1
    assert walk.heads[2].b_O is None
    assert walk.heads[1:3].attention.data_ptr() == walk.attention[1:].data_ptr()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda walk: walk.heads[3], "head 3 does not exist: choose from 0-2"),
        (lambda walk: walk.heads[[0, -4]], "head -4 does not exist"),
        (lambda walk: walk.heads[3:], "no head selected"),
        (lambda walk: walk.transport(4, 0), "query 4 does not exist: choose from 0-3"),
        (lambda walk: walk.gates(0, -5), "key -5 does not exist"),
        (lambda walk: walk.walk_matrix("loud"), "weighting 'loud' is unknown"),
    ],
)
def test_what_does_not_exist_is_refused(ask, message: str):
    with pytest.raises(SelectionError, match=message):
        ask(make_case().walk)
