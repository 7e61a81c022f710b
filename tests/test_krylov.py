"""Leading eigenvalues and singular values of operators that are only applied."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conwalk.errors import ShapeError
from conwalk.operators import DenseOperator, Identity, LinearOperator
from conwalk.operators.krylov import eigenpairs, singular_triplets, symmetric_eigenpairs
from conwalk.operators.subspace import principal_angles
from group_walks import matching_distance

ITERATE = 1  # rows up to which these tests allow the dense solution: none of their operators
CLOSE = 1e-9


def _random(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns))


def _operator(matrix: np.ndarray, width: int = 1, dtype: torch.dtype = torch.float64):
    rows, columns = matrix.shape
    spaces = ((columns // width, width), (rows // width, width))
    return DenseOperator(torch.from_numpy(matrix.copy()).to(dtype), *spaces)


def _with_eigenvalues(values: np.ndarray, seed: int = 0) -> np.ndarray:
    """A matrix that is not normal, with real eigenvalues of our choice."""
    basis = np.eye(len(values)) + 0.05 * _random(len(values), len(values), seed)
    return basis @ np.diag(values) @ np.linalg.inv(basis)


@pytest.mark.parametrize("dense_up_to", [ITERATE, 600])
@pytest.mark.parametrize("seed", range(3))
def test_eigenvalues_of_largest_modulus(dense_up_to: int, seed: int):
    matrix = _random(60, 60, seed)
    wanted = np.linalg.eigvals(matrix)
    wanted = wanted[np.argsort(-np.abs(wanted))]
    count = 6 if abs(abs(wanted[5]) - abs(wanted[6])) > CLOSE else 7
    found = eigenpairs(_operator(matrix, 3), count, dense_up_to=dense_up_to)
    assert found.converged
    assert found.vectors.shape == (count, 20, 3)
    assert matching_distance(found.values, wanted[:count]) < CLOSE
    assert bool((found.values.abs().diff() <= CLOSE).all())
    flat = found.vectors.flatten(1).numpy()
    residuals = np.linalg.norm(flat @ matrix.T - found.values.numpy()[:, None] * flat, axis=1)
    assert np.allclose(np.linalg.norm(flat, axis=1), 1)
    assert np.allclose(found.residuals, residuals / abs(wanted[0]), rtol=0, atol=CLOSE)
    assert float(found.residuals.max()) < CLOSE


@pytest.mark.parametrize("dense_up_to", [ITERATE, 600])
@pytest.mark.parametrize("end", ["largest", "smallest"])
def test_ends_of_a_self_adjoint_spectrum(dense_up_to: int, end: str):
    matrix = _random(50, 50)
    matrix = matrix + matrix.T
    values, vectors = np.linalg.eigh(matrix)
    picked = slice(-4, None) if end == "largest" else slice(0, 4)
    order = values[picked][::-1] if end == "largest" else values[picked]
    found = symmetric_eigenpairs(_operator(matrix, 5), 4, end=end, dense_up_to=dense_up_to)
    assert found.converged
    assert found.values.dtype == torch.float64
    assert np.allclose(found.values, order, rtol=0, atol=CLOSE)
    angles = principal_angles(found.vectors.flatten(1).mT, torch.from_numpy(vectors[:, picked]))
    assert float(angles.max()) < 1e-6
    assert float(found.residuals.max()) < CLOSE


@pytest.mark.parametrize("dense_up_to", [ITERATE, 600])
@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (50, 50)])
def test_singular_values_from_the_top(dense_up_to: int, shape: tuple[int, int]):
    matrix = _random(*shape)
    found = singular_triplets(_operator(matrix, 2), 3, dense_up_to=dense_up_to)
    left, values, right = np.linalg.svd(matrix)
    assert found.converged
    assert np.allclose(found.values, values[:3], rtol=0, atol=CLOSE)
    assert np.allclose(np.abs((found.left.flatten(1).numpy() * left[:, :3].T).sum(1)), 1)
    assert np.allclose(np.abs((found.right.flatten(1).numpy() * right[:3]).sum(1)), 1)
    assert float(found.residuals.max()) < CLOSE


def test_singular_values_beyond_the_rank_are_zero():
    found = singular_triplets(_operator(np.outer(np.arange(1.0, 5.0), np.ones(3))), 5)
    assert len(found.values) == 3
    assert np.allclose(found.values, [90.0**0.5, 0, 0], atol=1e-6)
    assert float(found.residuals.max()) < 1e-6
    wide = singular_triplets(_operator(np.outer(np.ones(3), np.arange(1.0, 5.0))), 5)
    assert np.allclose(wide.values, found.values, atol=1e-6)


def test_an_eigenspace_is_found_as_a_space():
    values = np.concatenate([[5.0, 5.0, 5.0], np.linspace(-1, 1, 40)])
    basis = np.linalg.qr(_random(43, 43))[0]
    matrix = basis @ np.diag(values) @ basis.T
    found = symmetric_eigenpairs(_operator(matrix), 3)
    assert np.allclose(found.values, 5.0)
    angles = principal_angles(found.vectors.flatten(1).mT, torch.from_numpy(basis[:, :3]))
    assert float(angles.max()) < CLOSE


def test_large_operators_are_never_written_out(monkeypatch: pytest.MonkeyPatch):
    values = np.concatenate([[9.0, -8.0, 7.0], np.linspace(-1, 1, 898)])
    operator = _operator(_with_eigenvalues(values))
    monkeypatch.setattr(LinearOperator, "to_dense", lambda self: pytest.fail("written out"))
    found = eigenpairs(operator, 3)
    assert matching_distance(found.values, values[:3]) < 1e-8
    assert eigenpairs(operator, 3).values.tolist() == found.values.tolist()
    assert singular_triplets(operator, 1).converged


def test_small_products_run_on_one_thread_and_the_setting_is_as_found(
    monkeypatch: pytest.MonkeyPatch,
):
    seen: list[int] = []
    threads = [3]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[0])
    monkeypatch.setattr(torch, "set_num_threads", lambda n: threads.__setitem__(0, n))

    class Watched(DenseOperator):
        def _apply(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(threads[0])
            return super()._apply(x)

    eigenpairs(
        Watched(torch.randn(30, 30, dtype=torch.float64), (30, 1), (30, 1)), 2, dense_up_to=5
    )
    assert 1 in seen
    assert threads == [3]


def test_single_precision_converges_to_its_rounding():
    values = 1e3 * np.concatenate([[4.0, 3.0], np.linspace(-1, 1, 700)])
    found = eigenpairs(_operator(_with_eigenvalues(values), dtype=torch.float32), 2)
    assert found.converged
    assert found.values.dtype == torch.complex128
    assert matching_distance(found.values, values[:2]) < 1
    assert 1e-9 < float(found.residuals.max()) < 1e-4


def test_what_has_not_converged_is_left_out_and_said():
    values = np.concatenate([[50.0], 1 + np.linspace(0, 1e-6, 800)])
    operator = _operator(np.diag(values))
    found = eigenpairs(operator, 4, restarts=1)
    assert not found.converged
    assert len(found.values) < 4
    assert len(found.vectors) == len(found.residuals) == len(found.values)
    triplets = singular_triplets(operator, 4, restarts=1)
    assert not triplets.converged
    assert len(triplets.values) < 4
    nothing = eigenpairs(_operator(np.diag(values[1:])), 4, restarts=1)
    assert not nothing.converged
    assert nothing.vectors.shape == (0, 800, 1)
    assert len(singular_triplets(_operator(np.diag(values[1:])), 4, restarts=1).values) == 0


@pytest.mark.parametrize("size", [5, 700])
def test_zero_and_identity(size: int):
    zero = _operator(np.zeros((size, size)))
    found = eigenpairs(zero, 3)
    assert found.converged
    assert not found.values.any()
    assert not found.residuals.any()
    assert not singular_triplets(zero, 3).values.any()
    one = symmetric_eigenpairs(Identity((size, 1), dtype=torch.float64), 2)
    assert np.allclose(one.values, 1.0)
    assert np.allclose(eigenpairs(Identity((size, 1), dtype=torch.float64), 1).values, 1.0)


@pytest.mark.parametrize("size", [5, 700])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused(size: int, bad: float):
    matrix = np.eye(size)
    matrix[2, 3] = bad
    for solve in (eigenpairs, symmetric_eigenpairs, singular_triplets):
        with pytest.raises(ShapeError, match="NaN or infinite"):
            solve(_operator(matrix), 2)


def test_counts_and_shapes_that_make_no_sense():
    with pytest.raises(ShapeError, match="no eigenvalues"):
        eigenpairs(_operator(np.ones((2, 3))))
    with pytest.raises(ShapeError, match="count 0"):
        eigenpairs(_operator(np.eye(3)), 0)
    assert len(eigenpairs(_operator(np.eye(3)), 9).values) == 3


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
def test_angles_are_arc_cosines_of_overlaps(left: int, right: int, seed: int):
    first, second = _random(6, left, seed), _random(6, right, seed + 100)
    one, other = np.linalg.qr(first)[0], np.linalg.qr(second)[0]
    wanted = np.arccos(np.clip(np.linalg.svd(one.T @ other, compute_uv=False), 0, 1))
    found = principal_angles(torch.from_numpy(first), torch.from_numpy(second))
    assert np.allclose(found, wanted, rtol=0, atol=1e-7)
    assert np.allclose(
        found, principal_angles(torch.from_numpy(second), torch.from_numpy(first)), atol=1e-12
    )


def test_small_angles_are_exact():
    first = torch.eye(4).double()[:, :2]
    turned = first.clone()
    turned[2, 0] = 1e-9
    angles = principal_angles(first, turned)
    assert float(angles[0]) < 1e-15
    assert abs(float(angles[1]) - 1e-9) < 1e-15


def test_complex_columns_span_what_their_mixtures_span():
    columns = torch.from_numpy(_random(6, 3) + 1j * _random(6, 3, 1))
    mixed = columns @ torch.from_numpy(_random(3, 3, 2) + 1j * _random(3, 3, 3))
    assert float(principal_angles(columns, mixed).max()) < 1e-12
    assert float(principal_angles(columns, columns.conj()).max()) > 0.1


@pytest.mark.parametrize("second", [torch.ones(3, 1), torch.ones(4, 5), torch.ones(4, 0)])
def test_subspaces_that_have_no_angles(second: torch.Tensor):
    with pytest.raises(ShapeError):
        principal_angles(torch.ones(4, 1), second)
