"""A single head is a Kronecker product, A ⊗ M, and so is its spectrum (Theory §1)."""

import torch
from jaxtyping import Complex
from torch import Tensor
from torch.nn.functional import pad

from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.errors import ShapeError


def kronecker_factors(
    walk: ConnectionWalk,
) -> tuple[Complex[Tensor, " token"], Complex[Tensor, " width"]]:
    """Give the eigenvalues of the attention and of the map of a walk of one head.

    Those of a causal attention are its diagonal; those of M = W_V W_O are the ones of the
    k×k matrix W_O W_V, filled up with zeros.

    Args:
        walk: a square walk of one head without output gate.

    Returns:
        The eigenvalues of A (with the value scale of its senders) and of M, complex128.

    Raises:
        ShapeError: several heads, an output gate, or a walk that is not square.
    """
    if walk.n_heads != 1 or walk.output_gate is not None or not walk.is_square:
        raise ShapeError(
            f"{walk!r} with {walk.n_heads} heads is no Kronecker product: give a square walk of "
            "one head without output gate, such as walk.heads[0]"
        )
    attention = walk.attention[0].to(torch.float64)
    if walk.value_scale is not None:
        attention = attention * walk.value_scale[0]
    causal = walk.is_causal
    of_tokens = attention.diagonal() if causal else torch.linalg.eigvals(attention)
    value, output = (w[0].to(torch.float64) for w in (walk.transports.W_V, walk.transports.W_O))
    small = output @ value if value.shape[1] < len(value) else value @ output
    of_map = torch.linalg.eigvals(small)
    return of_tokens.to(of_map.dtype), pad(of_map, (0, len(value) - len(of_map)))


def kronecker_spectrum(walk: ConnectionWalk) -> Complex[Tensor, "token width"]:
    """Give every eigenvalue of a walk of one head: the products λ_i(A) μ_j(M).

    Args:
        walk: a square walk of one head without output gate.

    Returns:
        One eigenvalue to each eigenvalue of A and each of M, complex128.

    Raises:
        ShapeError: several heads, an output gate, or a walk that is not square.
    """
    of_tokens, of_map = kronecker_factors(walk)
    return of_tokens[:, None] * of_map
