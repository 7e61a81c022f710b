"""How far queries see, and which layers do not attend at all: counted, named, printed."""

import numpy as np
import pytest
import torch
from torch import nn

from conwalk.metrics import LayerData
from conwalk.metrics.reach import METRIC
from conwalk.models.unattended import layers_without_attention, ranges
from conwalk.pipeline import analyze, verify
from family_build import build
from tiny_models import make_tiny
from walk_cases import make_case

IDS = [list(range(3, 15))]


def _measured(attention: torch.Tensor) -> dict[str, float]:
    n = attention.shape[-1]
    walk = make_case(queries=n, keys=n).change(attention=attention).walk
    found = METRIC.finish(METRIC.compute(LayerData(walk, torch.zeros(n, 5).double())))
    return {name: float(value) for name, value in found.items()}


def test_steps_of_known_length() -> None:
    shift = torch.eye(6, dtype=torch.float64).roll(2, 0)
    shift[:2] = torch.eye(6, dtype=torch.float64)[:2]
    found = _measured(shift.expand(3, -1, -1).clone())
    assert found == {"reach": 3, "step_length": pytest.approx(4 * 2 / 6)}
    assert _measured(torch.eye(4, dtype=torch.float64).expand(3, -1, -1).clone()) == {
        "reach": 1,
        "step_length": 0,
    }


def test_positions_of_two_sequences_have_no_distance() -> None:
    case = make_case(queries=3, keys=4)
    found = METRIC.finish(METRIC.compute(LayerData(case.walk, case.x)))
    assert all(value.isnan() for value in found.values())


def test_a_sliding_window_is_named_and_seen() -> None:
    model = build("gemma3_text")
    proof = verify(model, IDS)
    found = analyze(model, IDS)
    wanted = [layer.site.reach or 12 for layer in proof.layers]
    assert {4, 12} == set(wanted)
    assert [layer.reach for layer in proof.layers] == wanted
    assert list(found["reach"].values[0]) == wanted
    assert np.array_equal(found["window"].fillna(12).values, wanted)
    narrow = ", ".join(layer.name for layer in proof.layers if layer.site.reach)
    assert proof.windows.startswith(f"farthest token seen, itself counted: 4 tokens in {narrow};")
    assert proof.as_dict()["layers"][0]["window"] == 4


def test_nothing_is_said_of_windows_where_there_is_none() -> None:
    proof = verify(make_tiny("llama"), IDS)
    assert proof.windows == ""
    assert proof.without == ()


def test_layers_without_attention_are_listed_by_their_true_numbers() -> None:
    model = build("qwen3_next")
    proof = verify(model, IDS)
    assert [layer.name for layer in proof.layers] == ["3"]
    assert proof.without == ("layers.0-2",)
    assert proof.as_dict()["without_attention"] == ["layers.0-2"]
    assert analyze(model, IDS).attrs["layers_without_attention"] == '["layers.0-2"]'


def test_a_container_in_which_nothing_attends_has_no_holes() -> None:
    model = nn.ModuleDict(
        {
            "layers": nn.ModuleList(nn.Sequential(nn.Identity()) for _ in range(5)),
            "convolutions": nn.ModuleList(nn.Identity() for _ in range(3)),
        }
    )
    assert layers_without_attention(model, ["layers.1.0", "layers.3.0"]) == ("layers.0, 2, 4",)
    assert layers_without_attention(model, [f"layers.{i}" for i in range(5)]) == ()
    assert ranges([0, 1, 2, 5]) == "0-2, 5"
