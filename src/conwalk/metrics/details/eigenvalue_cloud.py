"""Eigenvalues of the walk in the complex plane: enough of them to see their shape (Theory §2)."""

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from conwalk.connection import ConnectionWalk, edge_square_norms
from conwalk.connection.causal_spectrum import DiagonalCores
from conwalk.metrics.metric import Quantity
from conwalk.operators.krylov import eigenpairs

EIGENVALUE = "eigenvalue"
_BLOCKS = 4
_LEADING = 24
WHICH = (
    "of causal walks all eigenvalues but 0 of the diagonal blocks of up to 4 evenly spaced tokens, "
    "exact; of others up to 24 of largest modulus, by Arnoldi iteration, those that converged"
)

SCALE = Quantity(
    "spectrum_scale", "s = √(ΣP‖T‖² / (R ΣP))", (), "1", (0.0, None),
    "scale that brings the transports closest to isometries of rank R = min(d, k · value heads); "
    "eigenvalues over it belong on or in the unit circle if it brings them all the way",
    "Theory §2",
)  # fmt: skip
PARTS = tuple(
    Quantity(
        f"spectrum_{part}", symbol, (EIGENVALUE,), "1", (None, None),
        f"{part} part of eigenvalues of the walk operator", "Theory §2", comparable=False,
    )
    for part, symbol in (("real", "Re λ"), ("imag", "Im λ"))
)  # fmt: skip
QUANTITIES = (*PARTS, SCALE)


def eigenvalue_cloud(walk: ConnectionWalk) -> Complex[Tensor, " count"]:
    """Compute the eigenvalues that a picture of the spectrum shows.

    Args:
        walk: any walk.

    Returns:
        What ``WHICH`` says, complex128; none of a walk that is not square.
    """
    if not walk.is_square:
        return torch.zeros(0, dtype=torch.complex128)
    if walk.is_causal:
        cores = DiagonalCores(walk)
        tokens = torch.linspace(0, len(cores) - 1, min(_BLOCKS, len(cores))).round().long()
        return torch.linalg.eigvals(torch.stack([cores[i] for i in tokens.tolist()])).flatten()
    return eigenpairs(walk, min(_LEADING, walk.shape[0])).values.to(torch.complex128)


def cloud_scale(walk: ConnectionWalk) -> Float[Tensor, ""]:
    """Compute the scale of the transports, uniform weights. Theory §2.

    Args:
        walk: any walk.

    Returns:
        s > 0, or NaN for a walk with an output gate or without edges.
    """
    if walk.output_gate is not None:
        return torch.tensor(torch.nan)
    weight = walk.walk_matrix().abs().double()
    energy = (weight * edge_square_norms(walk).nan_to_num()).sum()
    transports = walk.transports
    rank = min(transports.width_in, transports.n_kv_heads * transports.value_width)
    return (energy / (rank * weight.sum())).sqrt()
