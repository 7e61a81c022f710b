"""Head maps: statistics from the factors agree with dense matrices."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conwalk.connection import HeadTransports
from conwalk.errors import SelectionError, ShapeError
from dense_reference import assert_close, head_maps


def _factors(
    kv_heads: int, group: int, width_in: int, width_out: int, value: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return (
        normal(kv_heads, width_in, value),
        normal(kv_heads * group, value, width_out),
        normal(kv_heads, value),
    )


def _size(W_V: Tensor, W_O: Tensor) -> float:
    """At least the size of every term of every map, in every gauge used here."""
    return float(W_V.norm() * W_O.norm())


# Values wider than the residual stream are among them.
factors = st.builds(
    _factors,
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    width_in=st.integers(1, 5),
    width_out=st.integers(1, 5),
    value=st.integers(1, 7),
    seed=st.integers(0, 2**16),
)


@given(factors)
def test_maps_and_sizes(parts: tuple[Tensor, Tensor, Tensor]):
    W_V, W_O, b_V = parts
    transports = HeadTransports(W_V, W_O, b_V)
    maps = head_maps(W_V, W_O)
    group = len(W_O) // len(W_V)
    assert (transports.n_heads, transports.n_kv_heads) == (len(W_O), len(W_V))
    assert transports.group == group
    assert maps.shape == (transports.n_heads, transports.width_in, transports.width_out)
    assert transports.value_width == W_O.shape[1]
    for head in range(len(W_O)):
        assert_close(transports.matrix(head), maps[head], W_O.shape[1], _size(W_V, W_O))
        assert_close(transports.value_heads()[head], W_V[head // group], 1)
    expected = np.stack([b_V[h // group].numpy() @ W_O[h].numpy() for h in range(len(W_O))])
    found = transports.affine()
    assert found is not None
    assert_close(found, expected, W_O.shape[1], float(b_V.norm() * W_O.norm()))


@given(factors)
def test_singular_values_and_norms(parts: tuple[Tensor, Tensor, Tensor]):
    W_V, W_O, _ = parts
    transports = HeadTransports(W_V, W_O)
    found = transports.singular_values()
    for head, matrix in enumerate(head_maps(W_V, W_O)):
        wanted = np.zeros(W_O.shape[1])
        exact = np.linalg.svd(matrix, compute_uv=False)[: len(wanted)]
        wanted[: len(exact)] = exact
        assert_close(found[head], wanted, matrix.size, _size(W_V, W_O))
        norm = np.array(np.linalg.norm(matrix))
        assert_close(transports.norms()[head], norm, matrix.size, _size(W_V, W_O))
    assert bool((found.diff(dim=-1) <= 0).all())


@given(factors)
def test_gram_and_quartic(parts: tuple[Tensor, Tensor, Tensor]):
    W_V, W_O, _ = parts
    transports = HeadTransports(W_V, W_O)
    maps, size = head_maps(W_V, W_O), _size(W_V, W_O)
    gram = np.einsum("hab,gab->hg", maps, maps)
    quartic = np.einsum("hba,gbc,pdc,qda->hgpq", maps, maps, maps, maps)
    assert_close(transports.gram(), gram, maps[0].size, size**2)
    assert_close(transports.quartic(), quartic, maps[0].size, size**4)
    assert transports.gram() is transports.gram()
    assert transports.quartic() is transports.quartic()


@given(factors)
def test_output_squares_give_the_lengths_of_written_values(parts: tuple[Tensor, Tensor, Tensor]):
    W_V, W_O, b_V = parts
    squares = HeadTransports(W_V, W_O).output_squares
    for head in range(len(W_O)):
        value = b_V[head // (len(W_O) // len(W_V))]
        written = value.numpy() @ W_O[head].numpy()
        size = float((value.norm() * W_O[head].norm()) ** 2)
        assert_close(value @ squares[head] @ value, np.array(written @ written), W_O.numel(), size)


@given(factors)
def test_adjoint_transposes_every_map(parts: tuple[Tensor, Tensor, Tensor]):
    W_V, W_O, b_V = parts
    transports = HeadTransports(W_V, W_O, b_V)
    adjoint = transports.adjoint()
    assert adjoint.affine() is None
    for head in range(transports.n_heads):
        assert_close(adjoint.matrix(head), transports.matrix(head).mT, 1, _size(W_V, W_O))
    found, wanted = adjoint.singular_values(), transports.singular_values()
    assert_close(found, wanted, W_V.numel(), _size(W_V, W_O))


@given(factors, st.data())
def test_selected_heads_keep_their_value_heads(
    parts: tuple[Tensor, Tensor, Tensor], data: st.DataObject
):
    transports = HeadTransports(*parts)
    every = st.integers(-transports.n_heads, transports.n_heads - 1)
    heads = data.draw(st.lists(every, min_size=1, max_size=6))
    chosen = transports.select(heads)
    affine, biases = transports.affine(), chosen.affine()
    assert affine is not None
    assert biases is not None
    assert chosen.n_heads == len(heads)
    for place, head in enumerate(heads):
        found, wanted = chosen.matrix(place), transports.matrix(head)
        assert_close(found, wanted, 1, _size(transports.W_V, transports.W_O))
        assert_close(biases[place], affine[head], 1, float(parts[2].norm() * parts[1].norm()))


def test_selection_keeps_whole_groups_grouped():
    transports = HeadTransports(*_factors(3, 2, 4, 4, 2, 0))
    assert transports.select(slice(2, 6)).n_kv_heads == 2
    assert transports.select([0, 1]).n_kv_heads == 1
    assert transports.select([0, 2, 3]).n_kv_heads == 3
    assert transports.select(range(2, 4)).W_V.data_ptr() == transports.W_V[1:].data_ptr()


@given(factors, st.integers(0, 2**16))
def test_gauge_moves_no_statistic(parts: tuple[Tensor, Tensor, Tensor], seed: int):
    W_V, W_O, b_V = parts
    width = W_O.shape[1]
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(W_V), width, width, generator=generator, dtype=torch.float64)
    frames = torch.linalg.qr(noise).Q * 2.0
    moved = HeadTransports(
        W_V @ frames,
        torch.linalg.solve(frames.repeat_interleave(len(W_O) // len(W_V), 0), W_O),
        (b_V[:, None] @ frames)[:, 0],
    )
    still = HeadTransports(W_V, W_O, b_V)
    terms = W_V.numel() + W_O.numel()
    before, after = still.affine(), moved.affine()
    assert before is not None
    assert after is not None
    size = _size(W_V, W_O)
    assert_close(after, before, terms, float(b_V.norm() * W_O.norm()))
    assert_close(moved.singular_values(), still.singular_values(), terms, size)
    assert_close(moved.norms(), still.norms(), terms, size)
    assert_close(moved.gram(), still.gram(), terms, size**2)
    assert_close(moved.quartic(), still.quartic(), terms, size**4)


def test_permuted_heads_permute_everything():
    W_V, W_O, b_V = _factors(4, 1, 5, 5, 2, 0)
    order = [2, 0, 3, 1]
    still = HeadTransports(W_V, W_O, b_V)
    moved = HeadTransports(W_V[order], W_O[order], b_V[order])
    grid = np.ix_(order, order, order, order)
    assert_close(moved.singular_values(), still.singular_values()[order], 5)
    assert_close(moved.gram(), still.gram()[order][:, order], 25)
    assert_close(moved.quartic(), still.quartic().numpy()[grid], 25)


def test_sizes_show_in_the_repr():
    transports = HeadTransports(*_factors(2, 3, 5, 4, 7, 0))
    assert repr(transports) == (
        "HeadTransports(6 heads, 2 value heads, 5 -> 7 -> 4, torch.float64)"
    )


def test_no_bias_is_no_affine_part():
    W_V, W_O, _ = _factors(2, 1, 3, 3, 2, 0)
    transports = HeadTransports(W_V, W_O)
    assert transports.affine() is None
    assert not transports.value_biases().any()
    assert transports.value_heads() is W_V


def test_moving_to_another_dtype():
    transports = HeadTransports(*_factors(2, 2, 3, 4, 2, 0))
    assert transports.to() is transports
    assert transports.to(dtype=torch.float64, device="cpu") is transports
    single = transports.to(dtype=torch.float32)
    assert single.dtype == torch.float32
    assert single.b_V is not None
    assert single.b_V.dtype == torch.float32
    assert single.to(device="meta").device == torch.device("meta")
    W_V, W_O, _ = _factors(2, 2, 3, 4, 2, 0)
    assert HeadTransports(W_V, W_O).to(dtype=torch.float32).b_V is None


def test_half_precision_statistics_are_those_of_the_same_numbers_in_float32():
    W_V, W_O, _ = _factors(2, 2, 6, 5, 3, 0)
    half = HeadTransports(W_V.bfloat16(), W_O.bfloat16())
    single = half.to(dtype=torch.float32)
    for statistic in ("singular_values", "norms", "gram", "quartic"):
        found, wanted = getattr(half, statistic)(), getattr(single, statistic)()
        assert found.dtype == torch.float32
        assert torch.equal(found, wanted)


def test_numpy_arrays_make_transports():
    W_V, W_O, b_V = _factors(2, 2, 3, 4, 2, 0)
    found = HeadTransports(W_V.numpy(), W_O.numpy(), b_V.numpy())
    assert_close(found.gram(), HeadTransports(W_V, W_O).gram(), 1)


def _without(index: int, replacement: Tensor) -> tuple[Tensor, ...]:
    parts = list(_factors(2, 2, 3, 4, 2, 0))
    parts[index] = replacement
    return tuple(parts)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (_without(0, torch.zeros(3, 2).double()), r"W_V has shape \(3, 2\): give \(kv_head"),
        (_without(1, torch.zeros(4, 4).double()), r"W_O has shape \(4, 4\): give \(head"),
        (_without(1, torch.zeros(4, 3, 4).double()), r"W_O has shape .* needs \(4, 2, 4\)"),
        (_without(1, torch.zeros(3, 2, 4).double()), "divide evenly"),
        (_without(1, torch.zeros(4, 2, 4)), r"W_O is torch\.float32"),
        (_without(2, torch.zeros(4, 2).double()), r"b_V has shape \(4, 2\)"),
        (_without(2, torch.zeros(2, 2)), r"b_V is torch\.float32"),
        (_without(2, torch.full((2, 2), torch.nan).double()), "b_V holds NaN"),
        (_without(0, torch.full((2, 3, 2), torch.inf).double()), "W_V holds NaN or inf"),
    ],
)
def test_factors_that_do_not_fit_are_refused(parts: tuple[Tensor, ...], message: str):
    with pytest.raises(ShapeError, match=message):
        HeadTransports(*parts)


@pytest.mark.parametrize("head", [4, -5])
def test_a_head_that_does_not_exist_is_refused(head: int):
    transports = HeadTransports(*_factors(2, 2, 3, 4, 2, 0))
    with pytest.raises(SelectionError, match=f"head {head} does not exist: choose from 0-3"):
        transports.matrix(head)


def test_an_empty_selection_is_refused():
    transports = HeadTransports(*_factors(2, 2, 3, 4, 2, 0))
    with pytest.raises(SelectionError, match="no head selected"):
        transports.select([])
