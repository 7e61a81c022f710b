"""What a theorem is here: a statement, where it stands, and a residual with its bound."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import tolerance
from conwalk.connection import ConnectionWalk


@dataclass(frozen=True)
class Theorem:
    """An identity that holds for every walk, and how to see whether it does for one.

    Attributes:
        name: a short name in lower case.
        statement: the identity in one line.
        reference: where it stands.
        residual: maps a walk and a field (key, width_in) to how far it fails; 0 is exact.
        bound: maps a walk to the largest residual that rounding explains.
    """

    name: str
    statement: str
    reference: str
    residual: Callable[[ConnectionWalk, Tensor], float]
    bound: Callable[[ConnectionWalk], float]

    def holds(self, walk: ConnectionWalk, x: Tensor) -> bool:
        """Say whether the identity holds up to rounding.

        Args:
            walk: any walk.
            x: a field of its domain, (key, width_in).

        Returns:
            Whether the residual is within the bound.
        """
        return self.residual(walk, x) <= self.bound(walk)


def worst_row(
    difference: Float[Tensor, "*batch token width"], scale: Float[Tensor, "*batch token"]
) -> float:
    """Measure the largest row of a difference against the typical size of a row.

    Args:
        difference: what should be 0.
        scale: the size of each row of what was compared.

    Returns:
        Largest norm of a row of ``difference`` over the root mean square of ``scale``; 0 for
        0/0; infinite where a number is not finite.
    """
    worst = float(torch.linalg.vector_norm(difference.double(), dim=-1).max())
    typical = float(scale.double().square().mean().sqrt())
    return ratio(worst, typical)


def ratio(difference: float, size: float) -> float:
    """Divide so that every comparison with a bound is sound.

    Args:
        difference: >= 0.
        size: >= 0.

    Returns:
        ``difference / size``; 0 for 0/0; infinite for x/0 and where a number is not finite.
    """
    if not (math.isfinite(difference) and math.isfinite(size)):
        return math.inf
    if size == 0:
        return 0.0 if difference == 0 else math.inf
    return difference / size


def in_double(walk: ConnectionWalk, x: Tensor) -> tuple[ConnectionWalk, Tensor]:
    """Take a walk and a field to float64, so that an identity is tested and not its rounding.

    Args:
        walk: any walk.
        x: a field of its domain.

    Returns:
        Both in float64; every number is kept exactly.
    """
    return walk.to(dtype=torch.float64), x.to(torch.float64)


def head_sizes(walk: ConnectionWalk, x: Float[Tensor, "key width_in"]) -> Float[Tensor, " query"]:
    """Add the norms of what the heads and the output bias bring to each receiver.

    Rounding is relative to these sizes, not to a sum in which they may cancel.

    Args:
        walk: any walk.
        x: a field of its domain.

    Returns:
        One size per receiver.
    """
    sizes = torch.stack([torch.linalg.vector_norm(head(x), dim=-1) for head in walk.heads]).sum(0)
    return sizes if walk.b_O is None else sizes + torch.linalg.vector_norm(walk.b_O)


def rounding_bound(walk: ConnectionWalk) -> float:
    """Bound the residual of an identity that is tested in float64.

    Args:
        walk: any walk.

    Returns:
        What rounding may add up to over the sums that make one number of the output.
    """
    transports = walk.transports
    inner = transports.width_in + walk.n_heads * transports.value_width
    return tolerance.rounding(torch.float64, terms=walk.n_keys * inner)
