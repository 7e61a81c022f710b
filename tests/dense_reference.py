"""The mathematics once more, as naive loops over dense float64 matrices, for comparison."""

import numpy as np
import torch
from torch import Tensor

from conwalk import tolerance
from conwalk.operators import LinearOperator


def head_maps(W_V: Tensor, W_O: Tensor) -> np.ndarray:
    """M[h] of every query head, (head, width_in, width_out)."""
    value, output = W_V.double().numpy(), W_O.double().numpy()
    group = len(output) // len(value)
    return np.stack([value[h // group] @ output[h] for h in range(len(output))])


def edge_map(
    attention: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    i: int,
    j: int,
    value_scale: Tensor | None = None,
    output_gate: Tensor | None = None,
) -> np.ndarray:
    """P[i,j] T[i,j], what one edge does to a vector, (width_in, width_out)."""
    weights, value, output = (t.double().numpy() for t in (attention, W_V, W_O))
    group = len(output) // len(value)
    total = np.zeros((value.shape[1], output.shape[2]))
    for h in range(len(output)):
        scale = 1.0 if value_scale is None else float(value_scale[h, j])
        gate = np.ones(value.shape[2])
        if output_gate is not None:
            gate = output_gate[h, i].double().numpy()
        total += weights[h, i, j] * scale * value[h // group] @ np.diag(gate) @ output[h]
    return total


def edge_affine(
    attention: Tensor,
    W_O: Tensor,
    b_V: Tensor | None,
    i: int,
    j: int,
    value_scale: Tensor | None = None,
    output_gate: Tensor | None = None,
) -> np.ndarray:
    """P[i,j] t[i,j], what the value bias brings along one edge, (width_out,)."""
    weights, output = attention.double().numpy(), W_O.double().numpy()
    total = np.zeros(output.shape[2])
    for h in range(len(output) if b_V is not None else 0):
        value = b_V[h // (len(output) // len(b_V))].double().numpy()
        if output_gate is not None:
            value = value * output_gate[h, i].double().numpy()
        scale = 1.0 if value_scale is None else float(value_scale[h, j])
        total += weights[h, i, j] * scale * value @ output[h]
    return total


def walk_matrix(attention: Tensor, weights: Tensor) -> np.ndarray:
    """P, one edge after the other."""
    heads, queries, keys = attention.shape
    result = np.zeros((queries, keys))
    for i in range(queries):
        for j in range(keys):
            result[i, j] = sum(float(weights[h] * attention[h, i, j]) for h in range(heads))
    return result


def dense_walk(
    attention: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    value_scale: Tensor | None = None,
    output_gate: Tensor | None = None,
) -> np.ndarray:
    """The matrix of a walk on flattened fields: block (i, j) is (P[i,j] T[i,j])ᵀ."""
    _, queries, keys = attention.shape
    return np.block(
        [
            [edge_map(attention, W_V, W_O, i, j, value_scale, output_gate).T for j in range(keys)]
            for i in range(queries)
        ]
    )


def assert_close(
    actual: Tensor | np.ndarray,
    expected: Tensor | np.ndarray,
    terms: int,
    size: float | None = None,
) -> None:
    """Require agreement up to the rounding of a sum of so many products, in float64.

    Rounding is relative to the terms, which may cancel: ``size`` is the sum of their sizes,
    and the largest expected number where it is not given.
    """
    found = actual.numpy(force=True) if isinstance(actual, Tensor) else np.asarray(actual)
    wanted = expected.numpy(force=True) if isinstance(expected, Tensor) else np.asarray(expected)
    assert found.shape == wanted.shape
    assert found.dtype == np.float64
    largest = np.abs(wanted).max(initial=0.0) if size is None else size
    bound = tolerance.rounding(torch.float64, terms) * largest
    assert np.abs(found - wanted).max(initial=0.0) <= bound


def assert_is_operator(
    operator: LinearOperator, dense: np.ndarray, sizes: np.ndarray | None = None
) -> None:
    """Require that a float64 operator does what a dense matrix does, in every way it can.

    ``sizes`` holds the same sums as ``dense`` with every term positive; |dense| by default.
    """
    rows, columns = dense.shape
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, *operator.domain, generator=generator, dtype=torch.float64)
    y = torch.randn(2, 3, *operator.codomain, generator=generator, dtype=torch.float64)
    forward = (x.flatten(-2).numpy() @ dense.T).reshape(y.shape)
    back = (y.flatten(-2).numpy() @ dense).reshape(x.shape)
    terms = rows + columns
    sizes = np.abs(dense) if sizes is None else sizes
    size = float(sizes.max())
    size_forward = float((np.abs(x.flatten(-2).numpy()) @ sizes.T).max())
    size_back = float((np.abs(y.flatten(-2).numpy()) @ sizes).max())

    assert operator.shape == dense.shape
    assert_close(operator @ x, forward, terms, size_forward)
    assert_close(operator @ x[0, 0], forward[0, 0], terms, size_forward)
    assert_close(operator.H @ y, back, terms, size_back)
    assert_close(operator.to_dense(), dense, terms, size)
    assert_close(operator.H.to_dense(), dense.T, terms, size)
    assert (operator.H.domain, operator.H.codomain) == (operator.codomain, operator.domain)
    assert_close(operator.H.H @ x, forward, terms, size_forward)

    flat, tall = x[0].flatten(1).numpy(), y[0].flatten(1).numpy()
    bridge = operator.to_scipy()
    assert bridge.shape == dense.shape
    assert_close(bridge @ flat[0], dense @ flat[0], terms, size_forward)
    assert_close(bridge @ flat.T, dense @ flat.T, terms, size_forward)
    assert_close(bridge.T @ tall[0], dense.T @ tall[0], terms, size_back)
    assert_close(bridge.T @ tall.T, dense.T @ tall.T, terms, size_back)
