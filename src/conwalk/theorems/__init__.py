"""Identities of walks, each with a residual and the bound that rounding sets on it."""

from conwalk.theorems import adjoint, gauge, one_walk, reconstruction, single_head
from conwalk.theorems.reconstruction import residual as reconstruction_residual
from conwalk.theorems.theorem import Theorem

ALL: tuple[Theorem, ...] = (
    one_walk.THEOREM,
    single_head.THEOREM,
    gauge.THEOREM,
    adjoint.THEOREM,
)

__all__ = [
    "ALL",
    "Theorem",
    "adjoint",
    "gauge",
    "one_walk",
    "reconstruction",
    "reconstruction_residual",
    "single_head",
]
