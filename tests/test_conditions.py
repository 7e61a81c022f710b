"""The verdict on a layer in words."""

import math

import pytest
import torch

from conwalk.metrics.conditions import conditions, verdict

CAUSAL = {
    "row_sum_defect": 1e-7,
    "leak": 0.0,
    "least_weight": 0.0,
    "curl_share": 0.314,
    "curl_share_chance": 0.984,
    "counterfactual_scores": 0.49,
    "absorbing": 1.0,
    "flow_asymmetry": math.nan,
    "metric_defect": 0.62,
    "metric_defect_chance": 0.55,
    "rho": 0.951,
    "rho_null_mean": 0.97,
    "inverse_defect": math.nan,
}
PERFECT = {
    "row_sum_defect": 0.0,
    "least_weight": 0.0,
    "curl_share": 0.0,
    "metric_defect": 1e-7,
    "inverse_defect": 0.0,
    "absorbing": 0.0,
}


def test_a_causal_layer():
    assert verdict(CAUSAL) == (
        "stochastic; irreversible (κ .31, chance .98, partly counterfactual); "
        "not isometric (ρ .95, chance .97); reducible: token 0 absorbing"
    )
    assert [c.holds for c in conditions(CAUSAL)] == [True, False, False, None]


def test_a_connection_laplacian():
    assert verdict(PERFECT) == (
        "connection Laplacian; stochastic; reversible; isometric; inverse-consistent"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"row_sum_defect": 0.4, "leak": 0.4}, "leaking (up to .40 of a row)"),
        ({"row_sum_defect": 0.4, "leak": 0.0}, "not stochastic (row sums off by .40)"),
        ({"least_weight": -0.2}, "signed (weights down to -.20)"),
        ({"curl_share": 0.5}, "irreversible (κ .50)"),
        ({"metric_defect": 0.002}, "not isometric (defect 2e-03)"),
        (
            {"metric_defect": 0.3, "metric_defect_chance": 0.25},
            "not isometric (defect .30, chance .25)",
        ),
        ({"inverse_defect": 1.02}, "inverse-inconsistent (defect 1.02)"),
        ({"absorbing": 1.0}, "reducible: token 0 absorbing"),
    ],
)
def test_one_condition_that_fails_is_named(change: dict[str, float], words: str):
    found = verdict({**PERFECT, **change}).split("; ")
    assert words in found
    assert "connection Laplacian" not in found


def test_without_scores_the_flow_is_judged():
    values = {**PERFECT, "curl_share": math.nan, "flow_asymmetry": 0.2}
    assert "irreversible (flow .20)" in verdict(values)
    assert "reversible" in verdict({**values, "flow_asymmetry": 0.0}).split("; ")


def test_what_is_not_known_is_not_claimed():
    assert verdict({}) == "not tested"
    assert verdict({"curl_share": math.nan}) == "not tested"
    assert [c.holds for c in conditions({})] == [None] * 4
    for name in ("row_sum_defect", "curl_share", "metric_defect", "inverse_defect"):
        assert "connection Laplacian" not in verdict({**PERFECT, name: math.nan})


def test_what_counts_as_nothing_depends_on_the_dtype():
    values = {**PERFECT, "metric_defect": 1e-7}
    assert "isometric" in verdict(values).split("; ")
    assert "not isometric (defect 1e-07)" in verdict(values, torch.float64)


def test_without_edges_the_heads_are_judged():
    assert "not isometric (ρ .90)" in verdict({"rho": 0.9})
    assert verdict({"rho": 1.0}) == "isometric"
