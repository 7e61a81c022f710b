"""Numbers beside their nulls, long texts in blocks of rows, and verdicts, through the main job."""

import numpy as np
import pytest
import torch

from conwalk import nulls
from conwalk.capture import CapturedLayer, watch
from conwalk.errors import SelectionError
from conwalk.metrics import ALL, LayerData, Metric
from conwalk.models import load
from conwalk.pipeline import analyze
from conwalk.pipeline.layers import WHOLE
from conwalk.pipeline.selection import panel
from conwalk.results import refused
from conwalk.stats import benjamini_hochberg, two_sided
from tiny_models import make_tiny
from walk_cases import make_case

IDS = [[5, 9, 13, 40, 21, 8, 8, 61, 30, 12, 77]]


def metric(name: str) -> Metric:
    return next(m for m in ALL if m.name == name)


def test_a_drawn_null_stands_beside_what_was_observed() -> None:
    model = make_tiny("bert")
    found = analyze(model, IDS, panel=[metric("edge_rank"), metric("sink")], null_draws=5, seed=3)
    caught: list[CapturedLayer] = []
    watch(model).stream({"input_ids": torch.tensor(IDS)}, caught.append)
    for place, layer in enumerate(caught):
        data = LayerData(layer.walk, layer.value_input)
        seed = np.random.SeedSequence([3, 0, place]).generate_state(1)[0]
        generator = torch.Generator().manual_seed(int(seed))
        edge_rank = metric("edge_rank")
        drawn = []
        for _ in range(5):
            null = nulls.ALL["gaussian_factors"].draw(data, generator)
            drawn.append(float(edge_rank.finish(edge_rank.compute(null))["edge_rank"]))
        here = found.isel(prompt=0, layer=place)
        assert float(here.edge_rank_null_mean) == pytest.approx(np.mean(drawn), rel=1e-5)
        assert float(here.edge_rank_null_sd) == pytest.approx(np.std(drawn, ddof=1), rel=1e-3)
        z = (float(here.edge_rank) - np.mean(drawn)) / np.std(drawn, ddof=1)
        assert float(here.edge_rank_z) == pytest.approx(z, rel=1e-3)
        # even attention over 11 keys gives the first one 1/11, without any spread
        assert np.allclose(here.first_token_attention_null_mean, 1 / 11, atol=1e-6)
        assert here.first_token_attention_z.isnull().all()
    expected = benjamini_hochberg(two_sided(found.edge_rank_z.values))
    assert np.allclose(found.edge_rank_q, expected)


@pytest.mark.parametrize(("heads", "group"), [(4, 1), (2, 3), (1, 4)])
def test_the_chance_of_edge_ranks_in_closed_form_is_that_of_gaussian_maps(
    heads: int, group: int
) -> None:
    case = make_case(heads, group, 6, 6, 96, 96, 12, seed=1)
    data = LayerData(case.walk, case.x)
    edge_rank = metric("edge_rank")
    generator = torch.Generator().manual_seed(0)
    drawn = [
        float(edge_rank.finish(edge_rank.compute(gaussian))["edge_rank"])
        for gaussian in (nulls.ALL["gaussian_factors"].draw(data, generator) for _ in range(20))
    ]
    chance = float(edge_rank.finish(edge_rank.compute(data))["edge_rank_chance"])
    assert chance == pytest.approx(np.mean(drawn), rel=0.03)


def test_no_null_is_drawn_unless_asked() -> None:
    found = analyze(make_tiny("bert"), IDS)
    assert "edge_rank_null_mean" not in found
    assert "rho_null_mean" in found


def test_folded_scores_use_the_gain_of_the_norm_and_are_missing_where_there_is_none() -> None:
    model = make_tiny("llama")
    found = analyze(model, IDS)
    for place, site in enumerate(watch(model).sites):
        gain = model.layers[place].input_layernorm.weight.detach().double()
        for h in range(4):
            folded = gain[:, None] * site.transports.matrix(h).double()
            sigma = torch.linalg.svdvals(folded)
            rho = float(sigma.sum() / (16**0.5 * sigma.square().sum().sqrt()))
            assert float(found.rho_folded[place, h]) == pytest.approx(rho, abs=1e-5)
    assert float(abs(found.rho - found.rho_folded).max()) > 1e-3


def test_a_long_text_in_blocks_of_rows_gives_what_it_gives_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = make_tiny("llama")
    whole = analyze(model, IDS, panel=ALL)
    monkeypatch.setattr("conwalk.pipeline.analysis.BLOCK_ABOVE", 4)
    monkeypatch.setattr("conwalk.pipeline.analysis.BLOCK_ROWS", 3)
    blocked = analyze(model, IDS, panel=ALL)
    (entry,) = refused(blocked)
    assert entry["name"].startswith("prompt 0, metrics reversibility")
    assert "--whole" in entry["reason"]
    for m in ALL:
        for quantity in m.quantities:
            a, b = whole[quantity.name], blocked[quantity.name]
            if m.needs in WHOLE:
                assert b.isnull().all(), quantity.name
            else:
                assert np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True), quantity.name
    assert float(blocked.residual.max()) <= 5e-6
    asked = analyze(model, IDS, panel=ALL, whole=True)
    assert refused(asked) == []
    assert np.allclose(asked.curl_share, whole.curl_share)


def test_nulls_that_were_not_drawn_of_a_long_text_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, panel = make_tiny("llama"), [metric("flow"), metric("entropy")]
    monkeypatch.setattr("conwalk.pipeline.analysis.BLOCK_ABOVE", 12)
    found = analyze(model, [IDS[0], IDS[0] * 2], panel=panel, null_draws=2)
    (entry,) = refused(found)
    assert entry["name"] == "prompt 1, drawn nulls of flow"
    assert "--whole" in entry["reason"]
    assert found.flow_asymmetry_null_mean[1].isnull().all()
    assert found.stationarity_defect_null_mean[0].notnull().all()
    assert found.stationarity_defect[1].notnull().all()
    assert refused(analyze(model, IDS * 2, panel=panel, null_draws=2, whole=True)) == []
    assert refused(analyze(model, IDS * 2, panel=panel)) == []


def test_scores_that_cannot_be_had_are_listed() -> None:
    found = analyze(make_tiny("falcon-alibi"), IDS)
    assert found.curl_share.isnull().all()
    names = [entry["name"] for entry in refused(found)]
    assert names[0] == "scores of layer 0 (h.0.self_attention)"
    assert len(names) == 3


def test_the_verdict_of_a_decoder() -> None:
    found = analyze(make_tiny("llama"), IDS)
    for text in found.verdict.values:
        assert text.startswith("stochastic; irreversible (κ .")
        assert text.endswith("reducible: token 0 absorbing")


def test_weight_numbers_are_kept_and_found_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("CONWALK_CACHE", str(tmp_path))
    model = load(make_tiny("gpt2"))
    first = analyze(model, IDS)
    monkeypatch.setattr(
        "conwalk.pipeline.weights.WeightPanel._numbers", lambda *_: pytest.fail("computed again")
    )
    second = analyze(model, IDS)
    for name in first.data_vars:
        assert np.array_equal(first[name], second[name], equal_nan=True), name


def test_metrics_are_chosen_by_name() -> None:
    assert [m.name for m in panel("entropy,sink")] == ["sink", "entropy"]
    assert panel(None) == [m for m in ALL if m.default]
    assert panel("all") == list(ALL)
    with pytest.raises(SelectionError, match="metric 'entorpy' does not exist"):
        panel("sink,entorpy")
