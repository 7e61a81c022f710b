"""The adjoint of a walk is its adjoint: <walk x, y> = <x, walk.H y> (Theory §2)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection import ConnectionWalk
from conwalk.theorems.theorem import Theorem, in_double, ratio, rounding_bound


def residual(walk: ConnectionWalk, x: Float[Tensor, "key width_in"], seed: int = 0) -> float:
    """Compare both sides of <walk x, y> = <x, walk.H y> for a random y.

    Args:
        walk: any walk.
        x: a field of its domain.
        seed: which y.

    Returns:
        The difference over the larger of ‖walk x‖‖y‖ and ‖x‖‖walk.H y‖, in float64.
    """
    walk, x = in_double(walk, x)
    generator = torch.Generator().manual_seed(seed)
    y = torch.randn(walk.codomain, generator=generator, dtype=torch.float64).to(walk.device)
    forward, back = walk @ x, walk.H @ y
    size = max(float(forward.norm() * y.norm()), float(x.norm() * back.norm()))
    return ratio(abs(float((forward * y).sum() - (x * back).sum())), size)


THEOREM = Theorem(
    name="adjoint",
    statement="<walk x, y> = <x, walk.H y>",
    reference="Theory §2",
    residual=residual,
    bound=rounding_bound,
)
