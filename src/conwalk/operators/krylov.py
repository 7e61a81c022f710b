"""Leading eigenvalues and singular values of an operator that is only ever applied.

ARPACK through scipy, from a fixed start vector; small operators are written out and solved
densely. A causal walk does not belong here: its spectrum is known exactly from its diagonal
blocks, and rounding alone moves what an iterative solver finds (Theory §2).
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Inexact
from numpy.typing import NDArray
from scipy import linalg as dense
from scipy.sparse import linalg as sparse
from torch import Tensor

from conwalk import tolerance
from conwalk.errors import ShapeError
from conwalk.operators.base import LinearOperator
from conwalk.operators.fields import working_dtype

End = Literal["largest", "smallest"]
Solver = Literal["symmetric", "general"]

DENSE = 600
"""Operators of at most this many rows are written out."""

_ONE_THREAD = 1 << 17
_RESTARTS = 200
_SEED = 0


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """Some eigenvalues of an operator, and how far each is from being one.

    Attributes:
        values: eigenvalues, complex128 or, of a self-adjoint operator, float64; as many as
            converged.
        vectors: one field of norm 1 to each.
        residuals: ‖A v − λ v‖ over the largest |λ| found (0 for 0/0).
        converged: whether all that were asked for were found to the dtype's rounding.
    """

    values: Inexact[Tensor, " found"]
    vectors: Inexact[Tensor, "found token width"]
    residuals: Float[Tensor, " found"]
    converged: bool


@dataclass(frozen=True, eq=False)
class SingularTriplets:
    """Some singular values of an operator: A right = σ left.

    Attributes:
        values: σ >= 0, descending, float64; as many as converged.
        left: one field of the codomain of norm 1 to each (0 where σ is 0).
        right: one field of the domain of norm 1 to each.
        residuals: ‖Aᵀ left − σ right‖ over the largest σ found (0 for 0/0).
        converged: whether all that were asked for were found to the dtype's rounding.
    """

    values: Float[Tensor, " found"]
    left: Float[Tensor, "found token_out width_out"]
    right: Float[Tensor, "found token_in width_in"]
    residuals: Float[Tensor, " found"]
    converged: bool


def eigenpairs(
    operator: LinearOperator, count: int = 6, *, dense_up_to: int = DENSE, restarts: int = _RESTARTS
) -> Eigenpairs:
    """Find the eigenvalues of largest modulus.

    Args:
        operator: maps a space to itself.
        count: how many; of a conjugate pair the cut may leave one. At most all of them.
        dense_up_to: write the operator out if it has at most so many rows.
        restarts: largest number of restarts of the Arnoldi iteration.

    Returns:
        Complex eigenvalues by descending modulus.

    Raises:
        ShapeError: the operator is not square, ``count`` is below 1, or NaN or infinite numbers.
    """
    values, vectors, converged = _solve(operator, count, "general", "LM", dense_up_to, restarts)
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return _eigenpairs(operator, values[order], vectors[:, order], converged)


def symmetric_eigenpairs(
    operator: LinearOperator,
    count: int = 6,
    *,
    end: End = "largest",
    dense_up_to: int = DENSE,
    restarts: int = _RESTARTS,
) -> Eigenpairs:
    """Find the eigenvalues at one end of the spectrum of a self-adjoint operator.

    The iteration may see an eigenvalue of multiplicity m less than m times; the dense
    solution sees all.

    Args:
        operator: self-adjoint for the Euclidean inner product; this is not checked.
        count: how many, at most all of them.
        end: ``"largest"`` (descending) or ``"smallest"`` (ascending).
        dense_up_to: write the operator out if it has at most so many rows.
        restarts: largest number of restarts of the Lanczos iteration.

    Returns:
        Real eigenvalues from that end inwards, with orthonormal vectors.

    Raises:
        ShapeError: the operator is not square, ``count`` is below 1, or NaN or infinite numbers.
    """
    which = "LA" if end == "largest" else "SA"
    values, vectors, converged = _solve(operator, count, "symmetric", which, dense_up_to, restarts)
    order = np.argsort(-values if end == "largest" else values, kind="stable")[:count]
    return _eigenpairs(operator, values[order], vectors[:, order], converged)


def singular_triplets(
    operator: LinearOperator, count: int = 6, *, dense_up_to: int = DENSE, restarts: int = _RESTARTS
) -> SingularTriplets:
    """Find the largest singular values.

    The right vectors span the leading eigenvectors of AᵀA; the values come from the singular
    values of A on that span, so that they are not rounded as squares.

    Args:
        operator: any operator.
        count: how many; at most the smaller of its two sizes.
        dense_up_to: write AᵀA out if it has at most so many rows.
        restarts: largest number of restarts of the Lanczos iteration.

    Returns:
        Singular values with their vectors.

    Raises:
        ShapeError: ``count`` is below 1, or NaN or infinite numbers.
    """
    span = symmetric_eigenpairs(
        operator.H @ operator, count, dense_up_to=dense_up_to, restarts=restarts
    )
    basis = span.vectors.to(operator.device, operator.dtype)
    images = (operator @ basis).to(torch.float64).flatten(1)
    left, values, mix = torch.linalg.svd(images.mT, full_matrices=False)
    right = (mix @ span.vectors.flatten(1)).unflatten(1, operator.domain)
    left = (left.mT * (values > 0)[:, None]).unflatten(1, operator.codomain)
    back = (operator.H @ left.to(operator.device, operator.dtype)).to(torch.float64)
    distance = (back - values[:, None, None] * right).flatten(1).norm(dim=1)
    return SingularTriplets(values, left, right, _over(distance, values), span.converged)


def _solve(
    operator: LinearOperator, count: int, kind: Solver, which: str, dense_up_to: int, restarts: int
) -> tuple[NDArray[Any], NDArray[Any], bool]:
    """Give eigenvalues and the columns that belong to them, dense or iterative."""
    size = _require_solvable(operator, count)
    start = np.random.default_rng(_SEED).standard_normal(size)
    bridge = operator.to_scipy()
    image: NDArray[Any] = np.asarray(bridge @ start.astype(bridge.dtype))
    _require_finite(operator, image)
    if size <= dense_up_to or count >= size - 1:
        matrix = operator.to_dense().double().numpy(force=True)
        _require_finite(operator, matrix)
        solve: Any = dense.eigh if kind == "symmetric" else dense.eig
        return *solve(matrix), True
    if not image.any():
        # A start vector with a part in every direction is only lost where all are.
        basis = np.linalg.qr(np.random.default_rng(_SEED).standard_normal((size, count)))[0]
        return np.zeros(count), basis, True
    return _iterate(operator, count, kind, which, start, restarts)


def _iterate(
    operator: LinearOperator, count: int, kind: Solver, which: str, start: Any, restarts: int
) -> tuple[NDArray[Any], NDArray[Any], bool]:
    """Run ARPACK, and keep what it has where it gives up."""
    size = len(start)
    solver: Any = sparse.eigsh if kind == "symmetric" else sparse.eigs
    options: dict[str, Any] = {
        "which": which,
        "v0": start.astype(operator.to_scipy().dtype),
        "ncv": min(size, max(3 * count, count + 30)),
        "tol": tolerance.rounding(working_dtype(operator.dtype)),
        "maxiter": restarts,
    }
    try:
        with _few_threads(size):
            values, vectors = solver(operator.to_scipy(), count, **options)
    except sparse.ArpackNoConvergence as partial:
        return partial.eigenvalues, partial.eigenvectors.reshape(size, -1), False
    return values, vectors, True


@contextmanager
def _few_threads(size: int) -> Generator[None]:
    """One thread for torch while small products alternate with the solver's own work.

    The threads of one library would spin while the other's compute, at several times the cost.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if size <= _ONE_THREAD else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _eigenpairs(
    operator: LinearOperator, values: NDArray[Any], columns: NDArray[Any], converged: bool
) -> Eigenpairs:
    """Measure the residuals, and shape the columns into fields."""
    double = np.float64 if np.isrealobj(values) else np.complex128
    found = torch.from_numpy(np.ascontiguousarray(values, dtype=double))
    flat = torch.from_numpy(np.ascontiguousarray(columns.T, dtype=double))
    vectors = flat.unflatten(1, operator.domain)
    images = torch.zeros_like(vectors)
    if len(found):
        parts = torch.view_as_real(vectors).movedim(-1, 0) if flat.is_complex() else vectors
        moved = (operator @ parts.to(operator.device, operator.dtype)).to("cpu", torch.float64)
        images = torch.complex(*moved) if flat.is_complex() else moved
    distance = (images - found[:, None, None] * vectors).flatten(1).norm(dim=1)
    return Eigenpairs(found, vectors, _over(distance, found.abs()), converged)


def _over(distance: Tensor, sizes: Tensor) -> Float[Tensor, " found"]:
    """Divide by the largest size; 0 for 0/0."""
    largest = sizes.max() if len(sizes) else distance.new_tensor(1.0)
    return torch.where(distance == 0, distance, distance / largest)


def _require_solvable(operator: LinearOperator, count: int) -> int:
    """Give the number of rows of an operator that has ``count`` eigenvalues."""
    if not operator.is_square:
        raise ShapeError(f"{operator!r} has no eigenvalues: it must map a space to itself")
    if count < 1:
        raise ShapeError(f"count {count} asks for no value: give 1 or more")
    return operator.shape[0]


def _require_finite(operator: LinearOperator, numbers: NDArray[Any]) -> None:
    if not np.isfinite(numbers).all():
        raise ShapeError(
            f"{operator!r} gives NaN or infinite numbers: an eigensolver cannot use them; look "
            "for the first of them in its parts"
        )
