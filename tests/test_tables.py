"""Tables hold the numbers of the dataset, row by row."""

import numpy as np
import pytest

from conwalk.errors import SelectionError
from conwalk.results import head_table, layer_table, null_of, siblings, tidy
from figure_cases import PROMPTS, TOKENS, figure_dataset


def test_by_layer_leaves_out_what_has_other_axes() -> None:
    found = figure_dataset()
    table = tidy(found, "layer")
    assert table["layer"].tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(table["rho"], found["rho"].median("head"))
    assert "operator_distance" not in table
    assert "singular_values" not in table


def test_a_chosen_metric_brings_its_null_along() -> None:
    found = figure_dataset()
    assert list(layer_table(found, ["rho"])) == ["rho", "rho_null_mean", "rho_null_sd", "rho_z"]
    assert list(layer_table(found, ["edge_rank"])) == ["edge_rank", "edge_rank_chance"]
    assert siblings(found, "depth_tv_value") == [
        "depth_tv_null_mean_value",
        "depth_tv_null_sd_value",
    ]


def test_by_head_is_one_row_a_head() -> None:
    found = figure_dataset()
    table = tidy(found, "head", ["rho", "curl_share"])
    assert list(table)[:2] == ["layer", "head"]
    for row in table.itertuples():
        here = {"layer": row.layer, "head": row.head}
        assert row.rho == float(found["rho"].sel(here))
        assert row.curl_share == float(found["curl_share"].sel(here).mean("prompt"))
    assert len(table) == 12


def test_by_token_stops_at_the_end_of_each_prompt() -> None:
    found = figure_dataset()
    table = tidy(found, "token")
    assert len(table) == 4 * (8 + 5)
    last = table[(table.prompt == PROMPTS[1]) & (table.layer == 2)]
    assert last["text"].tolist() == TOKENS[1]
    np.testing.assert_array_equal(
        last["token_energy_dirichlet"], found["token_energy_dirichlet"][1, 2, :5]
    )


@pytest.mark.parametrize("causal", [True, False])
def test_by_edge_is_one_row_an_edge_that_is_there(causal: bool) -> None:
    found = figure_dataset(causal=causal)
    table = tidy(found, "edge")
    count = 4 * (36 + 15) if causal else 4 * (64 + 25)
    assert len(table) == count
    row = table[(table.prompt == PROMPTS[1]) & (table.layer == 3)].iloc[7]
    here = {"prompt": 1, "layer": 3, "query": int(row.query), "key": int(row.key)}
    assert row.weight == found["walk_matrix"].isel(here)
    assert row.norm == found["edge_norm"].isel(here)
    assert row.r_eff == found["edge_effective_rank"].isel(here)
    assert (row.query_text, row.key_text) == (TOKENS[1][row["query"]], TOKENS[1][row["key"]])


def test_edges_of_pooled_maps_are_named_by_the_first_token_of_their_cell() -> None:
    found = figure_dataset()
    pooled = found[["walk_matrix", "edge_norm", "token_text"]].isel(
        query=slice(0, 4), key=slice(0, 4)
    )
    pooled["walk_matrix"].attrs["tokens_per_cell"] = 2
    table = tidy(pooled, "edge")
    assert sorted(set(table["query"])) == [0, 2, 4, 6]
    assert table[table["query"] == 4]["query_text"].iloc[0] == TOKENS[0][4]


def test_what_is_not_there_is_named_with_what_comes_close() -> None:
    found = figure_dataset(details=False)
    with pytest.raises(SelectionError, match="no 'rhoo': did you mean rho"):
        head_table(found, ["rhoo"])
    with pytest.raises(SelectionError, match="edge_rank has the axes prompt, layer"):
        head_table(found, ["edge_rank"])
    with pytest.raises(SelectionError, match="hold no edges"):
        tidy(found, "edge")
    with pytest.raises(SelectionError, match="choose from layer, head, token, edge"):
        tidy(found, "neuron")


def test_nulls_are_found_by_name_and_by_their_words() -> None:
    found = figure_dataset()
    found["rho_fresh"] = found["rho"]
    found["walk_gap"] = found["edge_rank"].assign_attrs(null="1 for even, ½ for causal ones")
    found["depth_tv_no_sink_fresh"] = found["depth_tv_no_sink"]
    rho, curl, inverse = (null_of(found, n) for n in ("rho", "curl_share", "inverse_defect"))
    assert (rho.mean, rho.sd, rho.fresh) == ("rho_null_mean", "rho_null_sd", "rho_fresh")
    assert (curl.mean, curl.words) == ("curl_share_chance", "independent scores")
    assert (inverse.mean, inverse.constant) == (None, 1.0)
    assert null_of(found, "walk_gap") is None
    assert null_of(found, "depth_tv_no_sink").sd == "depth_tv_null_sd_no_sink"
    assert null_of(found, "depth_tv_no_sink").fresh == "depth_tv_no_sink_fresh"
    assert null_of(found, "energy_total") is None
