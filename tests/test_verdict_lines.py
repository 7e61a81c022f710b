"""Verdicts of many layers in few lines."""

from conwalk.results import grouped


def test_layers_that_differ_in_numbers_only_share_a_line() -> None:
    lines = grouped(
        ["0", "1", "2"],
        [
            "stochastic; irreversible (κ .31, chance .98); reducible: token 0 absorbing",
            "leaking (up to .02 of a row)",
            "stochastic; irreversible (κ .07, chance .98); reducible: token 0 absorbing",
        ],
    )
    assert lines == [
        "layers 0, 2: stochastic; irreversible (κ .07 to .31, chance .98); "
        "reducible: token 0 absorbing",
        "layer 1: leaking (up to .02 of a row)",
    ]


def test_all_layers_and_one_layer() -> None:
    assert grouped(["0", "1"], ["isometric (ρ 1.00)", "isometric (ρ 3e-05)"]) == [
        "all 2 layers: isometric (ρ 3e-05 to 1.00)"
    ]
    assert grouped(["4"], ["not tested"]) == ["layer 4: not tested"]
    assert grouped([], []) == []
