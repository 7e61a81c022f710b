"""The conditions of a random-walk connection Laplacian, one by one and in words (Theory §2)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from conwalk import tolerance


@dataclass(frozen=True)
class Condition:
    """What was found about one condition.

    Attributes:
        name: which condition.
        holds: whether it does, up to rounding; None where it cannot be tested.
        words: a short phrase; empty where there is nothing to say.
    """

    name: str
    holds: bool | None
    words: str


def conditions(
    values: Mapping[str, float], dtype: torch.dtype = torch.float32
) -> tuple[Condition, ...]:
    """Judge the conditions of Theory §2 by the numbers of one layer.

    Args:
        values: quantities of a layer by name, those with a head axis averaged over it:
            ``row_sum_defect``, ``leak``, ``least_weight`` (stochasticity); ``curl_share``,
            ``curl_share_chance``, ``counterfactual_scores`` (reversibility); ``absorbing``,
            ``flow_asymmetry`` (flow); ``metric_defect``, ``metric_defect_chance``
            (compatibility), ``rho``, ``rho_null_mean`` (isometry); ``inverse_defect``
            (inverse_consistency). What is missing or NaN is not judged.
        dtype: the dtype in which the model ran, which says what counts as 0.

    Returns:
        Stochasticity, reversibility, metric compatibility and inverse consistency.
    """
    known = {name: float(v) for name, v in values.items() if not math.isnan(float(v))}
    return (
        _stochastic(known, dtype),
        _reversible(known, dtype),
        _isometric(known, dtype),
        _consistent(known, dtype),
    )


def verdict(values: Mapping[str, float], dtype: torch.dtype = torch.float32) -> str:
    """Say in a line how far a layer is from a random-walk connection Laplacian (Theory §2).

    Args:
        values: quantities of a layer by name; see ``conditions``.
        dtype: the dtype in which the model ran, which says what counts as 0.

    Returns:
        Phrases such as ``stochastic; irreversible (κ .31, chance .98); not isometric (ρ .95,
        chance .97); reducible: token 0 absorbing``, and first of all ``connection Laplacian``
        where every condition holds.
    """
    judged = conditions(values, dtype)
    phrases = [c.words for c in judged if c.words]
    absorbing = values.get("absorbing") == 1
    if absorbing:
        phrases.append("reducible: token 0 absorbing")
    if all(c.holds for c in judged) and not absorbing:
        phrases.insert(0, "connection Laplacian")
    return "; ".join(phrases) or "not tested"


def _stochastic(known: Mapping[str, float], dtype: torch.dtype) -> Condition:
    name = "stochastic"
    if known.get("least_weight", 0.0) < 0:
        return Condition(name, False, f"signed (weights down to {_short(known['least_weight'])})")
    if "row_sum_defect" not in known:
        return Condition(name, None, "")
    if known["row_sum_defect"] <= tolerance.row_sum(dtype):
        return Condition(name, True, "stochastic")
    if known.get("leak", 0.0) > tolerance.row_sum(dtype):
        return Condition(name, False, f"leaking (up to {_short(known['leak'])} of a row)")
    return Condition(
        name, False, f"not stochastic (row sums off by {_short(known['row_sum_defect'])})"
    )


def _reversible(known: Mapping[str, float], dtype: torch.dtype) -> Condition:
    name = "reversible"
    if "curl_share" in known:
        where = ", partly counterfactual" if known.get("counterfactual_scores") else ""
        return _graded(known, dtype, name, "irreversible", "curl_share", "κ", where)
    return _graded(known, dtype, name, "irreversible", "flow_asymmetry", "flow")


def _isometric(known: Mapping[str, float], dtype: torch.dtype) -> Condition:
    """Judge by the edges, or by the heads alone where no edge was measured."""
    name = "isometric"
    if "rho" in known and "metric_defect" not in known:
        known = {**known, "metric_defect": 1 - known["rho"]}
    found = _graded(known, dtype, name, "not isometric", "metric_defect", "defect")
    if found.holds is not False or "rho" not in known:
        return found
    chance = _chance(known, "rho_null_mean")
    return Condition(name, False, f"not isometric (ρ {_short(known['rho'])}{chance})")


def _consistent(known: Mapping[str, float], dtype: torch.dtype) -> Condition:
    return _graded(
        known, dtype, "inverse-consistent", "inverse-inconsistent", "inverse_defect", "defect"
    )


def _graded(
    known: Mapping[str, float],
    dtype: torch.dtype,
    name: str,
    otherwise: str,
    quantity: str,
    symbol: str,
    where: str = "",
) -> Condition:
    """Judge a defect by rounding; name its size beside chance where it is more."""
    if quantity not in known:
        return Condition(name, None, "")
    defect = known[quantity]
    if defect <= tolerance.rounding(dtype):
        return Condition(name, True, name)
    chance = _chance(known, f"{quantity}_chance")
    return Condition(name, False, f"{otherwise} ({symbol} {_short(defect)}{chance}{where})")


def _chance(known: Mapping[str, float], quantity: str) -> str:
    return f", chance {_short(known[quantity])}" if quantity in known else ""


def _short(value: float) -> str:
    """Write a share in two digits, without a leading 0: .31."""
    text = f"{value:.2f}" if abs(value) >= 0.01 else f"{value:.0e}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text
