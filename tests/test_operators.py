"""Operators: whatever is derived from the two methods agrees with dense matrices."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import svds

from conwalk.errors import ShapeError
from conwalk.operators import Adjoint, DenseOperator, Identity, Product, Scaled, Sum, to_scipy
from conwalk.operators.fields import as_tensor, require_axes, working_dtype
from dense_reference import assert_close, assert_is_operator


def _dense(rows: int, columns: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns))


def _operator(matrix: np.ndarray, domain: tuple[int, int], codomain: tuple[int, int]):
    return DenseOperator(torch.from_numpy(matrix), domain, codomain)


sizes = st.tuples(st.integers(1, 4), st.integers(1, 4))
seeds = st.integers(0, 2**16)


@given(sizes, sizes, seeds)
def test_dense_operator_is_its_matrix(
    domain: tuple[int, int], codomain: tuple[int, int], seed: int
):
    matrix = _dense(codomain[0] * codomain[1], domain[0] * domain[1], seed)
    assert_is_operator(_operator(matrix, domain, codomain), matrix)


def test_the_helper_sees_a_wrong_matrix():
    matrix = _dense(6, 6, 0)
    wrong = matrix.copy()
    wrong[3, 4] += 1e-6
    with pytest.raises(AssertionError):
        assert_is_operator(_operator(matrix, (3, 2), (3, 2)), wrong)


def test_the_helper_sees_a_wrong_adjoint():
    matrix = torch.from_numpy(_dense(4, 4, 0))
    right = DenseOperator(matrix, (2, 2), (2, 2))

    class Wrong(DenseOperator):
        def _adjoint(self):
            return right

    with pytest.raises(AssertionError):
        assert_is_operator(Wrong(matrix, (2, 2), (2, 2)), matrix.numpy())


@given(sizes, sizes, seeds, st.floats(0.25, 4), st.booleans())
def test_sums_and_multiples(
    domain: tuple[int, int], codomain: tuple[int, int], seed: int, size: float, sign: bool
):
    factor = size if sign else -size
    rows, columns = codomain[0] * codomain[1], domain[0] * domain[1]
    a, b = _dense(rows, columns, seed), _dense(rows, columns, seed + 1)
    left, right = _operator(a, domain, codomain), _operator(b, domain, codomain)
    assert_is_operator(left + right, a + b, abs(a) + abs(b))
    assert_is_operator(left - right, a - b, abs(a) + abs(b))
    assert_is_operator(-left, -a)
    assert_is_operator(factor * left, factor * a)
    assert_is_operator(np.float64(factor) * left, factor * a)
    assert_is_operator(left * factor, factor * a)
    assert_is_operator(left / factor, a / factor)
    assert isinstance(left + right, Sum)
    assert isinstance(left * factor, Scaled)


@given(sizes, sizes, sizes, seeds)
def test_products(
    domain: tuple[int, int], middle: tuple[int, int], codomain: tuple[int, int], seed: int
):
    a = _dense(codomain[0] * codomain[1], middle[0] * middle[1], seed)
    b = _dense(middle[0] * middle[1], domain[0] * domain[1], seed + 1)
    product = _operator(a, middle, codomain) @ _operator(b, domain, middle)
    assert isinstance(product, Product)
    assert_is_operator(product, a @ b, abs(a) @ abs(b))


def test_identity():
    one = Identity((3, 2), dtype=torch.float64)
    assert_is_operator(one, np.eye(6))
    assert one.H is one
    assert one.is_square
    walk = _operator(_dense(6, 6, 0), (3, 2), (3, 2))
    matrix = _dense(6, 6, 0)
    assert_is_operator(one - walk, np.eye(6) - matrix, np.eye(6) + abs(matrix))


def test_adjoint_of_adjoint_is_the_operator():
    matrix = torch.from_numpy(_dense(4, 6, 0))
    operator = DenseOperator(matrix, (3, 2), (2, 2))
    adjoint = Adjoint(operator, lambda y: DenseOperator(matrix.mT, (2, 2), (3, 2)) @ y)
    assert_is_operator(adjoint, matrix.mT.numpy())
    assert adjoint.H is operator


def test_repr_names_the_spaces():
    operator = _operator(_dense(4, 6, 0), (3, 2), (2, 2))
    assert repr(operator) == "DenseOperator((2, 2) <- (3, 2), torch.float64)"
    assert not operator.is_square
    assert operator.device == torch.device("cpu")


def test_numpy_fields_are_accepted():
    matrix = _dense(4, 6, 0)
    operator = _operator(matrix, (3, 2), (2, 2))
    field = np.random.default_rng(1).standard_normal((3, 2))
    assert_close(operator @ field, (matrix @ field.ravel()).reshape(2, 2), 6)


def test_scipy_solver_finds_the_singular_values():
    matrix = _dense(12, 10, 0)
    operator = _operator(matrix, (5, 2), (6, 2))
    found = svds(to_scipy(operator), k=3, return_singular_vectors=False, random_state=0)
    assert_close(np.sort(found), np.sort(np.linalg.svd(matrix)[1])[-3:], 120)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scipy_sees_float32_where_it_has_no_such_dtype(dtype: torch.dtype):
    operator = DenseOperator(torch.ones(4, 6, dtype=dtype), (3, 2), (2, 2))
    image = operator.to_scipy() @ np.ones(6, dtype=np.float32)
    assert image.dtype == np.float32
    assert image.tolist() == [6.0] * 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a, b: a @ torch.ones(2, 2).double(), r"acts on fields \(\.\.\., 3, 2\)"),
        (lambda a, b: a @ torch.ones(3, 2), r"x is torch\.float32 .* convert"),
        (lambda a, b: a @ torch.ones(3).double(), "acts on fields"),
        (lambda a, b: a @ a, "cannot follow"),
        (lambda a, b: a + b, "different spaces"),
        (lambda a, b: a + DenseOperator(torch.ones(4, 6), (3, 2), (2, 2)), "convert"),
        (lambda a, b: b @ DenseOperator(torch.ones(4, 6), (3, 2), (2, 2)), "convert"),
        (
            lambda a, b: DenseOperator(torch.ones(4, 5), (3, 2), (2, 2)),
            r"matrix has shape \(4, 5\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, message: str):
    a = _operator(_dense(4, 6, 0), (3, 2), (2, 2))
    b = _operator(_dense(4, 4, 0), (2, 2), (2, 2))
    with pytest.raises(ShapeError, match=message):
        make(a, b)


def test_arrays_become_tensors_without_a_copy_where_numpy_allows_it():
    array = np.zeros(3)
    as_tensor("x", array)[0] = 1.0
    assert array[0] == 1.0
    fixed = np.zeros((2, 3))
    fixed.flags.writeable = False
    as_tensor("x", fixed)[0] = 1.0
    assert not fixed.any()
    assert as_tensor("x", fixed[:, ::-1]).shape == (2, 3)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([1.0], "x is a list"),
        (np.array(["a"]), "x has dtype <U1"),
        (np.zeros(2, dtype=">f8"), "x has dtype >f8"),
    ],
)
def test_other_things_are_no_arrays(array: object, message: str):
    with pytest.raises(ShapeError, match=message):
        as_tensor("x", array)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.zeros(2), r"x has shape \(2,\): give \(a, b\)"),
        (torch.zeros(2, 0), r"x has shape \(2, 0\)"),
        (torch.zeros(2, 2, dtype=torch.int64), "floating point"),
        (torch.tensor([[0.0, torch.nan]]), "NaN or infinite"),
        (torch.tensor([[torch.inf, -torch.inf]]), "NaN or infinite"),
        (torch.tensor([[torch.inf, 0.0]]), "NaN or infinite"),
    ],
)
def test_tensors_that_hold_no_numbers_along_the_axes_are_refused(
    tensor: torch.Tensor, message: str
):
    with pytest.raises(ShapeError, match=message):
        require_axes("x", tensor, "a b")


def test_large_numbers_whose_sum_overflows_are_finite():
    require_axes("x", torch.full((2, 2), torch.finfo(torch.float32).max), "a b")


def test_half_precision_is_computed_in_float32():
    found = [working_dtype(d) for d in (torch.float64, torch.float32, torch.bfloat16)]
    assert found == [torch.float64, torch.float32, torch.float32]
