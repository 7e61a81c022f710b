"""The summary says what the results hold, with their numbers and nothing else."""

import re
import warnings

import numpy as np
import pytest
import xarray as xr

from conwalk.report import Sentence, sentences
from conwalk.report.digits import short
from conwalk.results import layer_table
from report_cases import CASES, report_dataset


def told(dataset: xr.Dataset, topic: str) -> str:
    return "\n".join(s.text for s in sentences(dataset) if s.topic == topic)


def changed(dataset: xr.Dataset, name: str, values: np.ndarray) -> xr.Dataset:
    dataset = dataset.copy(deep=True)
    dataset[name].values[...] = values
    return dataset


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_results_has_a_summary_without_warnings(case: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sentences(CASES[case]())
    assert {s.topic for s in found} >= {"Analysed", "Exactness", "Conditions", "Refused"}
    assert all(re.search(r"\bnan\b|None", s.text) is None for s in found)


def test_what_was_analysed() -> None:
    text = told(report_dataset(), "Analysed")
    assert "tiny (Tiny): 4 attention layers of 3 heads" in text
    assert "2 prompts with 14 tokens in all, run in float32 on cpu" in text


def test_stacks_and_quantised_weights_are_named() -> None:
    dataset = CASES["two_stacks"]().assign_attrs(model_quantized=1)
    text = told(dataset, "Analysed")
    assert "2 stacks: encoder, decoder" in text
    assert "quantised, and analysed as they are: a note" in text


def test_worst_residual_and_its_layer() -> None:
    dataset = report_dataset()
    values = np.full((2, 4), 1e-7)
    values[1, 2] = 4.321e-7
    text = told(changed(dataset, "residual", values), "Exactness")
    assert "4 layers were rebuilt" in text
    assert "off by 4.32e−7 of the output's root mean square (layer 2)" in text
    assert "No layer was refused." in text
    assert "bit for bit" in told(changed(dataset, "residual", np.zeros((2, 4))), "Exactness")


def test_what_was_refused_is_repeated_word_by_word() -> None:
    dataset = CASES["two_stacks"]()
    assert told(dataset, "Refused") == "cross.0: an output gate"
    assert "1 layer or model part could not be rebuilt" in told(dataset, "Exactness")
    assert told(report_dataset(), "Refused") == "Nothing was refused."


def test_a_text_that_was_skipped_is_no_layer_that_failed() -> None:
    dataset = report_dataset(refused=[{"name": "text a", "reason": "empty"}])
    assert "No layer was refused." in told(dataset, "Exactness")


@pytest.mark.parametrize("name", ["curl_share", "rho", "edge_rank", "inverse_defect"])
def test_numbers_are_those_of_the_table_of_layers(name: str) -> None:
    dataset = report_dataset(seed=11)
    table = layer_table(dataset)[name]
    text = "\n".join(s.text for s in sentences(dataset))
    expected = (
        f"median {short(table.median())} over layers, from {short(table.min())} "
        f"(layer {table.idxmin()}) to {short(table.max())} (layer {table.idxmax()})"
    )
    assert expected in text


def test_chance_stands_beside_the_number() -> None:
    dataset = report_dataset()
    text = told(dataset, "What stands out")
    assert (
        f"chance {short(layer_table(dataset)['rho_null_mean'].median())} (Gaussian factors)" in text
    )
    assert "chance 1.00 (independent random head maps)" in told(dataset, "Conditions")


def test_heads_that_differ_from_their_null() -> None:
    z = np.tile([-3.0, 3.0, -3.0], (4, 1))
    q = np.tile([0.01, 0.01, 0.2], (4, 1))
    q[3, 1] = np.nan
    dataset = changed(changed(report_dataset(), "rho_z", z), "rho_q", q)
    assert "4 of 11 heads can be told to be less isometric than chance and 3 to be more" in told(
        dataset, "What stands out"
    )


def test_the_heads_furthest_from_their_null() -> None:
    z = np.zeros((4, 3))
    z[2, 1], z[0, 2] = -12.34, 5.678
    text = told(changed(report_dataset(), "rho_z", z), "What stands out")
    assert "Furthest below its null is head 1 of layer 2" in text
    assert "z −12.3); furthest above is head 2 of layer 0" in text
    assert "z 5.68)" in text


def test_sinks_and_steps() -> None:
    sinks, steps = np.tile([0.1, 0.2, 0.6, 0.1], (2, 1)), np.tile([0.2, 0.5, 0.3, np.nan], (2, 1))
    dataset = changed(changed(report_dataset(), "sink_fraction", sinks), "depth_tv", steps)
    text = told(dataset, "What stands out")
    assert "25.0 % of the heads" in text
    assert "layer 2 (60.0 %)" in text
    assert "moves by 0.300 of total variation, most after layer 1 (0.500)" in text


def test_sentences_are_pairs_for_whoever_lays_them_out() -> None:
    first = sentences(report_dataset())[0]
    assert isinstance(first, Sentence)
    topic, text = first
    assert (topic, text) == (first.topic, first.text)
