"""How far a walk is from normal, from Gram matrices (Theory §2 and §3).

A normal operator does what its eigenvalues say; what is not normal can grow for a while
although all its eigenvalues are small. Nothing here makes an n·d matrix unless it is small.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection import grams
from conwalk.connection.causal_spectrum import causal_spectrum
from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.connection.kronecker import kronecker_factors
from conwalk.errors import ShapeError
from conwalk.operators.krylov import DENSE


@dataclass(frozen=True)
class Departure:
    """Departure from normality, √(‖W‖_F² − Σ|λ|²) / ‖W‖_F (Henrici 1962).

    Attributes:
        value: in [0, 1], 0 if and only if the walk is normal, which shows as up to 1e-7: the
            square root of what rounding leaves. None where the whole spectrum is out of reach.
        bound: an upper bound of it, from |tr W²| <= Σ|λ|²; None with an output gate.
    """

    value: float | None
    bound: float | None


def frobenius_square(walk: ConnectionWalk) -> float:
    """Compute ‖𝒲‖_F² = Σ_hg ⟨A_h, A_g⟩ G_hg of the whole walk (Theory §3).

    Args:
        walk: any walk, with value scale or output gate where it has them.

    Returns:
        The sum of squares of all n²·d² numbers, in float64.
    """
    weights = _scaled_attention(walk)
    if walk.output_gate is None:
        gram = walk.transports.to(torch.float64).gram()
        return float(((weights.flatten(1) @ weights.flatten(1).mT) * gram).sum())
    per_query = torch.einsum("hij,gij->ihg", weights, weights)
    transports = walk.transports.to(torch.float64)
    products = grams.value_products(transports.value_heads()) * grams.output_products(
        transports.W_O
    )
    gates = walk.output_gate.to(torch.float64)
    return float(torch.einsum("ihg,hik,hgkl,gil->", per_query, gates, products, gates))


def trace_square(walk: ConnectionWalk) -> float:
    """Compute tr 𝒲² = Σ λ² = Σ_hg ⟨A_h, A_gᵀ⟩ tr(M_h M_g) of the whole walk.

    Args:
        walk: a square walk without output gate.

    Returns:
        The sum of the squares of all eigenvalues, a real number, in float64.

    Raises:
        ShapeError: an output gate, or a walk that is not square.
    """
    if walk.output_gate is not None or not walk.is_square:
        raise ShapeError(
            f"{walk!r} has no closed form of tr W²: give a square walk without output gate"
        )
    weights = _scaled_attention(walk)
    transports = walk.transports.to(torch.float64)
    loops = torch.einsum("hkd,gdl->hgkl", transports.W_O, transports.value_heads())
    traces = torch.einsum("hgkl,ghlk->hg", loops, loops)
    return float(((weights.flatten(1) @ weights.mT.flatten(1).mT) * traces).sum())


def square_moduli(walk: ConnectionWalk) -> float | None:
    """Compute Σ|λ|² over the whole spectrum, where the spectrum can be known.

    Args:
        walk: a square walk.

    Returns:
        The sum for a causal walk, a walk of one head, and a small walk; otherwise None.

    Raises:
        ShapeError: the walk is not square.
    """
    if not walk.is_square:
        raise ShapeError(f"{walk!r} has no eigenvalues: it must map a space to itself")
    if walk.is_causal:
        return float(causal_spectrum(walk).values.abs().square().sum())
    if walk.n_heads == 1 and walk.output_gate is None:
        of_tokens, of_map = (part.abs().square().sum() for part in kronecker_factors(walk))
        return float(of_tokens * of_map)
    if walk.shape[0] <= DENSE:
        matrix = walk.to(dtype=torch.float64).to_dense()
        return float(torch.linalg.eigvals(matrix).abs().square().sum())
    return None


def departure_from_normality(walk: ConnectionWalk) -> Departure:
    """Measure how much of a walk is not in its eigenvalues.

    Args:
        walk: a square walk.

    Returns:
        Henrici's departure where the spectrum can be known, and an upper bound of it. A walk
        that is 0 is normal.

    Raises:
        ShapeError: the walk is not square.
    """
    total = frobenius_square(walk)
    moduli = square_moduli(walk)
    value = None if moduli is None else _share(total, moduli)
    bound = None if walk.output_gate is not None else _share(total, abs(trace_square(walk)))
    return Departure(value, bound)


def _share(total: float, normal: float) -> float:
    """Give √((total − normal) / total), within [0, 1]; 0 for 0/0."""
    return 0.0 if total <= 0 else max(0.0, 1.0 - normal / total) ** 0.5


def _scaled_attention(walk: ConnectionWalk) -> Float[Tensor, "head query key"]:
    weights = walk.attention.to(torch.float64)
    return weights if walk.value_scale is None else weights * walk.value_scale[:, None]
