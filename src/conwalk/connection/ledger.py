"""The energy ledger: where the energy of a walk's generator comes from (Theory §2)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection.row_energies import RowEnergies


class Ledger(NamedTuple):
    """The ledger of a walk over Σ_i μ_i ‖x_i‖², pure numbers in float64; any leading axes.

    ``total = dirichlet + stationarity + compatibility + leak`` up to ``residual``.

    Attributes:
        total: ⟨x, (I − walk/s) x⟩_μ, through the operator.
        dirichlet: ½ Σ μ_i P_ij ‖x_i − x_j T_ij/s‖², >= 0.
        stationarity: ½ Σ (μ_i − ν_i) ‖x_i‖², ν = μP.
        compatibility: ½ Σ μ_i P_ij (‖x_j‖² − ‖x_j T_ij/s‖²).
        leak: ½ Σ μ_i (1 − r_i) ‖x_i‖², r_i = Σ_j P_ij.
        residual: |total − the sum of the four|.
    """

    total: Float[Tensor, "*lead"]
    dirichlet: Float[Tensor, "*lead"]
    stationarity: Float[Tensor, "*lead"]
    compatibility: Float[Tensor, "*lead"]
    leak: Float[Tensor, "*lead"]
    residual: Float[Tensor, "*lead"]


def balance(
    rows: RowEnergies,
    inverse_scale: Float[Tensor, "*lead"],
    mu: Float[Tensor, " query"] | None = None,
) -> Ledger:
    """Draw up the ledger of a walk from its row sums (Theory §2).

    Args:
        rows: the sums of all rows.
        inverse_scale: 1/s; 0 leaves the identity as generator.
        mu: one weight >= 0 per token; uniform by default.

    Returns:
        The ledger; all 0 for a field of zeros.
    """
    by_token = token_balance(rows, inverse_scale, mu)
    *terms, _ = (term.sum(-1) for term in by_token)
    return Ledger(*terms, residual=_residual(terms))


def token_balance(
    rows: RowEnergies,
    inverse_scale: Float[Tensor, "*lead"],
    mu: Float[Tensor, " query"] | None = None,
) -> Ledger:
    """Draw up the ledger receiver by receiver; its terms sum to those of the walk.

    What a receiver holds beyond what arrives, ½ μ_i (‖x_i‖² − Σ_j P_ij ‖x_j‖²), is its part of
    the stationarity defect.

    Args:
        rows: the sums of all rows.
        inverse_scale: 1/s; 0 leaves the identity as generator.
        mu: one weight >= 0 per token; uniform by default.

    Returns:
        The ledger of each token, all over Σ_i μ_i ‖x_i‖².
    """
    weight = torch.ones_like(rows.own) / rows.own.shape[-1] if mu is None else mu.to(rows.own)
    energy = (weight * rows.own).sum(-1, keepdim=True)
    share = weight / torch.where(energy == 0, torch.ones_like(energy), energy)
    t = inverse_scale.to(rows.own)[..., None]
    carried = t.square() * rows.carried
    terms = [
        share * (rows.own - t * rows.applied),
        share * (rows.mass * rows.own - 2 * t * rows.cross + carried).clamp(min=0) / 2,
        share * (rows.own - rows.arriving) / 2,
        share * (rows.arriving - carried) / 2,
        share * (1 - rows.mass) * rows.own / 2,
    ]
    return Ledger(*terms, residual=_residual(terms))


def fitted_inverse_scale(
    rows: RowEnergies, mu: Float[Tensor, " query"] | None = None
) -> Float[Tensor, "*lead"]:
    """Fit 1/s by least squares: it minimises Σ μ_i P_ij ‖x_i − x_j T_ij/s‖².

    Where tokens have little to do with what reaches them it is near 0, and shrinks even exact
    isometries; ``alignment`` says how well it fits.

    Args:
        rows: the sums of all rows.
        mu: one weight >= 0 per token; uniform by default.

    Returns:
        1/s, of either sign; 0 where nothing is carried.
    """
    weight = torch.ones_like(rows.own) if mu is None else mu.to(rows.own)
    return _ratio((weight * rows.cross).sum(-1), (weight * rows.carried).sum(-1))


def alignment(
    rows: RowEnergies, mu: Float[Tensor, " query"] | None = None
) -> Float[Tensor, "*lead"]:
    """Compute the cosine between tokens and what their edges carry to them.

    The Dirichlet energy at the fitted scale is ½ Σ μ_i r_i ‖x_i‖² (1 − cos²).

    Args:
        rows: the sums of all rows.
        mu: one weight >= 0 per token; uniform by default.

    Returns:
        A number in [−1, 1]: 1 where x_i = x_j T_ij/s along all edges for some s > 0, 0 where
        tokens and what is carried have nothing in common, or where either is 0.
    """
    weight = torch.ones_like(rows.own) if mu is None else mu.to(rows.own)
    held = (weight * rows.mass * rows.own).sum(-1)
    sizes = (held * (weight * rows.carried).sum(-1)).clamp(min=0).sqrt()
    return _ratio((weight * rows.cross).sum(-1), sizes).clamp(-1, 1)


def _residual(terms: Sequence[Tensor]) -> Tensor:
    total, *parts = terms
    return (total - torch.stack(parts).sum(0)).abs()


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    """Divide; 0 for x/0."""
    return torch.where(whole == 0, torch.zeros_like(part), part) / torch.where(
        whole == 0, torch.ones_like(whole), whole
    )
