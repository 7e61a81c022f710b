"""What the walk does in the long run and at once: eigenvalues, norm, normality (Theory §2)."""

from math import isnan

import torch
from torch import Tensor

from conwalk.connection import ConnectionWalk
from conwalk.connection.causal_spectrum import causal_leading
from conwalk.connection.kronecker import kronecker_spectrum
from conwalk.connection.normality import departure_from_normality
from conwalk.metrics.metric import LAYER, Arrays, LayerData, Metric, Quantity
from conwalk.operators import DenseOperator, LinearOperator
from conwalk.operators.krylov import eigenpairs, singular_triplets, symmetric_eigenpairs

_NAN = float("nan")


def _spectrum(data: LayerData) -> Arrays:
    walk = data.walk
    norm = _largest(singular_triplets(walk, 1).values)
    numbers = dict.fromkeys((q.name for q in SPECTRUM.quantities), _NAN)
    numbers["operator_norm"] = norm
    if walk.is_square:
        first, second, token = _leading_moduli(walk)
        hermitian = symmetric_eigenpairs((walk + walk.H) * 0.5, 1)
        numbers |= {
            "spectral_radius": first,
            "spectral_radius_token": token,
            "spectral_radius_share": _ratio(first, norm),
            "connection_gap": 1 - _ratio(second, first),
            "walk_gap": _walk_gap(walk),
            "numerical_abscissa_share": _ratio(_largest(hermitian.values), norm),
        }
    return {name: torch.tensor(number, dtype=torch.float64) for name, number in numbers.items()}


def _leading_moduli(walk: ConnectionWalk) -> tuple[float, float, float]:
    """Give the two largest |λ|, 0 where there is only one, and the token of the first."""
    count = min(2, walk.shape[0])
    token = _NAN
    if walk.is_causal:
        found = causal_leading(walk, count)
        moduli, token = found.values.abs(), float(found.tokens[0])
    elif walk.n_heads == 1 and walk.output_gate is None:
        moduli = kronecker_spectrum(walk).abs().flatten().sort(descending=True).values
    else:
        moduli = eigenpairs(walk, count).values.abs()
        moduli = moduli if len(moduli) == count else moduli.new_full((count,), _NAN)
    return float(moduli[0]), float(moduli[1]) if count > 1 else 0.0, token


def _walk_gap(walk: ConnectionWalk) -> float:
    """Give 1 − |λ₂|/|λ₁| of P; the eigenvalues of a causal P are its diagonal."""
    steps = walk.walk_matrix().to(torch.float64)
    n_tokens = len(steps)
    if walk.is_causal:
        moduli = steps.diagonal().abs().sort(descending=True).values
    else:
        scalar: LinearOperator = DenseOperator(steps, (n_tokens, 1), (n_tokens, 1))
        moduli = eigenpairs(scalar, min(2, n_tokens)).values.abs()
    if len(moduli) < min(2, n_tokens):
        return _NAN
    return 1 - _ratio(float(moduli[1]), float(moduli[0])) if n_tokens > 1 else 1.0


def _largest(found: Tensor) -> float:
    """Give the first of the values that converged."""
    return float(found[0]) if len(found) else _NAN


def _ratio(part: float, whole: float) -> float:
    """Divide what is at most as large as the other, up to rounding; 0 for 0/0."""
    share = 0.0 if whole == 0 else part / whole
    # what did not converge stays NaN, which min and max would swallow
    return share if isnan(share) else max(-1.0, min(1.0, share))


def _normality(data: LayerData) -> Arrays:
    walk = data.walk
    value, bound = _NAN, _NAN
    if walk.is_square:
        departure = departure_from_normality(walk)
        value = _NAN if departure.value is None else departure.value
        bound = _NAN if departure.bound is None else departure.bound
    return {
        "normality_departure": torch.tensor(value, dtype=torch.float64),
        "normality_departure_bound": torch.tensor(bound, dtype=torch.float64),
    }


SPECTRUM = Metric(
    name="spectrum",
    quantities=(
        Quantity(
            "operator_norm", "σ₁(𝒲)", LAYER, "1", (0.0, None),
            "largest singular value of the walk of all heads, without biases",
            "Theory §2", comparable=False,
        ),
        Quantity(
            "spectral_radius", "|λ₁(𝒲)|", LAYER, "1", (0.0, None),
            "largest modulus of an eigenvalue; exact for causal walks, iterative for others",
            "Theory §2", comparable=False,
        ),
        Quantity(
            "spectral_radius_token", "argmax_i |λ(Σ_h A_hii M_h)|", LAYER, "1", (0.0, None),
            "token whose diagonal block holds that eigenvalue; NaN for walks that are not causal",
            "Theory §2", comparable=False,
        ),
        Quantity(
            "spectral_radius_share", "|λ₁| / σ₁", LAYER, "1", (0.0, 1.0),
            "spectral radius as a share of the norm; 1 for a normal walk, 0 for one that is 0",
            "Theory §2", better="higher", null="1 for a self-adjoint walk", comparable=False,
        ),
        Quantity(
            "connection_gap", "1 − |λ₂(𝒲)| / |λ₁(𝒲)|", LAYER, "1", (0.0, 1.0),
            "gap between the two largest moduli of the walk; 0 for a conjugate pair",
            "Theory §2", comparable=False,
        ),
        Quantity(
            "walk_gap", "1 − |λ₂(P)| / |λ₁(P)|", LAYER, "1", (0.0, 1.0),
            "the same for the walk matrix; the eigenvalues of a causal one are its diagonal",
            "Theory §2", null="1 for uniform attention, ½ for causal uniform", comparable=False,
        ),
        Quantity(
            "numerical_abscissa_share", "λ₁(½(𝒲 + 𝒲ᵀ)) / σ₁", LAYER, "1", (-1.0, 1.0),
            "right end of the numerical range over the norm; ½ for a walk that is nilpotent "
            "of order 2", "Theory §2", null="1 for a positive self-adjoint walk", comparable=False,
        ),
    ),
    needs="heads",
    compute=_spectrum,
    default=False,
    chance="gaussian_factors",
)  # fmt: skip

NORMALITY = Metric(
    name="normality",
    quantities=(
        Quantity(
            "normality_departure", "√(‖𝒲‖² − Σ|λ|²) / ‖𝒲‖", LAYER, "1", (0.0, 1.0),
            "Henrici's departure from normality, from the whole spectrum; NaN where that is out "
            "of reach", "Theory §2", better="lower", null="0 for a self-adjoint walk",
            comparable=False,
        ),
        Quantity(
            "normality_departure_bound", "√(‖𝒲‖² − |tr 𝒲²|) / ‖𝒲‖", LAYER, "1", (0.0, 1.0),
            "upper bound of the same in closed form; equal to it where all eigenvalues are real",
            "Theory §2", better="lower", null="0 for a self-adjoint walk", comparable=False,
        ),
    ),
    needs="heads",
    compute=_normality,
    default=False,
    chance="gaussian_factors",
)  # fmt: skip

METRICS = (SPECTRUM, NORMALITY)
