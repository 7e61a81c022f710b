"""The basis of the values is free: nothing may depend on it (Theory §1)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection import ConnectionWalk
from conwalk.theorems.theorem import Theorem, head_sizes, in_double, rounding_bound, worst_row


def residual(walk: ConnectionWalk, x: Float[Tensor, "key width_in"], seed: int = 0) -> float:
    """Compare a walk with the same walk after a random change of gauge.

    Args:
        walk: any walk.
        x: a field of its domain.
        seed: which change of gauge.

    Returns:
        The largest relative difference of the output, in float64.
    """
    walk, x = in_double(walk, x)
    return worst_row(walk(x) - change(walk, seed)(x), head_sizes(walk, x))


def change(walk: ConnectionWalk, seed: int = 0) -> ConnectionWalk:
    """Change the basis of the values of each value head: W_V R, R⁻¹ W_O, b_V R.

    R is a random rotation times sizes between 1/2 and 2. An output gate acts coordinate by
    coordinate and fixes the basis up to sizes, so that only these change with a gate.

    Args:
        walk: any walk in float64 or float32.
        seed: which R.

    Returns:
        The same walk in another gauge.
    """
    transports = walk.transports
    frames = _frames(walk, seed)
    per_head = frames.repeat_interleave(transports.group, dim=0)
    bias = None
    if transports.b_V is not None:
        bias = (transports.b_V[:, None] @ frames).squeeze(1)
    return ConnectionWalk(
        walk.attention,
        transports.W_V @ frames,
        torch.linalg.solve(per_head, transports.W_O),
        bias,
        walk.b_O,
        value_scale=walk.value_scale,
        output_gate=walk.output_gate,
    )


def _frames(walk: ConnectionWalk, seed: int) -> Float[Tensor, "kv_head value value"]:
    """Draw one invertible R per value head, of condition number at most 4."""
    count, width = walk.transports.n_kv_heads, walk.transports.value_width
    generator = torch.Generator().manual_seed(seed)
    sizes = 2 ** (2 * torch.rand(count, width, generator=generator, dtype=torch.float64) - 1)
    noise = torch.randn(count, width, width, generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(noise).Q if walk.output_gate is None else torch.eye(width)
    return (rotation * sizes[:, None]).to(walk.attention)


THEOREM = Theorem(
    name="gauge",
    statement="W_V[h] -> W_V[h] R, W_O[h] -> R⁻¹ W_O[h] changes nothing",
    reference="Theory §1",
    residual=residual,
    bound=rounding_bound,
)
