"""One head is one step of a walk with a constant transport, and heads add up (Theory §1)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection import ConnectionWalk
from conwalk.theorems.theorem import Theorem, head_sizes, in_double, rounding_bound, worst_row


def residual(walk: ConnectionWalk, x: Float[Tensor, "key width_in"]) -> float:
    """Compare every head with A[h] x M[h], and the walk with the sum of its heads.

    The constant transport is applied in the other order than the walk does: tokens are mixed
    first, then mapped.

    Args:
        walk: any walk.
        x: a field of its domain.

    Returns:
        The largest relative difference found, in float64.
    """
    walk, x = in_double(walk, x)
    steps = [_step(head, x) for head in walk.heads]
    single = [
        worst_row(step - head(x), torch.linalg.vector_norm(step, dim=-1))
        for step, head in zip(steps, walk.heads, strict=True)
    ]
    total = torch.stack(steps).sum(0)
    total = total if walk.b_O is None else total + walk.b_O
    return max(worst_row(walk(x) - total, head_sizes(walk, x)), *single)


def _step(head: ConnectionWalk, x: Tensor) -> Float[Tensor, "query width_out"]:
    """Mix the tokens with one head's attention, then map them."""
    transports = head.transports
    attention = head.attention[0]
    if head.value_scale is not None:
        attention = attention * head.value_scale[0]
    mixed = (attention @ x) @ transports.W_V[0]
    if transports.b_V is not None:
        mixed = mixed + attention.sum(-1, keepdim=True) * transports.b_V[0]
    if head.output_gate is not None:
        mixed = mixed * head.output_gate[0]
    return mixed @ transports.W_O[0]


THEOREM = Theorem(
    name="single head",
    statement="a head is one step with the constant transport M[h], and heads add up",
    reference="Theory §1; arXiv 2607.10677",
    residual=residual,
    bound=rounding_bound,
)
