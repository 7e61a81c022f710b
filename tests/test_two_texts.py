"""Where layers read different texts, each is named by the tokens of its queries and its keys."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from conwalk import plot, report
from conwalk.errors import SelectionError
from conwalk.plot.fonts import token_label
from conwalk.results import labels_of, text_of, tidy
from report_cases import PLAIN, READ, TARGET, cross, decoder
from test_report_page import carried

CROSS, DECODER = [list(READ).index(name) for name in ("cross.1", "decoder.1")]


@pytest.fixture
def ax() -> Axes:
    return Figure().subplots()


@pytest.mark.parametrize("prompt", [0, 1])
def test_rows_of_cross_attention_are_the_decoder_and_columns_the_encoder(prompt: int) -> None:
    found = cross()
    assert labels_of(found, prompt, CROSS, "query") == TARGET[prompt]
    assert labels_of(found, prompt, CROSS, "key") == PLAIN[prompt]
    assert labels_of(found, prompt, DECODER, "key") == TARGET[prompt]
    assert labels_of(found, prompt, 0) == PLAIN[prompt]


def test_one_text_is_the_text_of_every_layer() -> None:
    found = decoder()
    assert text_of(found, 2, "key") == "token_text"
    assert labels_of(found, 1, 2, "key") == PLAIN[1]


def test_tokens_that_were_dropped_are_named() -> None:
    found = cross().drop_vars("token_text_target")
    with pytest.raises(SelectionError, match="no 'token_text_target'"):
        labels_of(found, 0, CROSS)


@pytest.mark.parametrize("prompt", [0, 1])
def test_edges_go_from_one_text_to_the_other(prompt: int) -> None:
    found = cross()
    table = tidy(found, "edge")
    here = table[(table.prompt == f"text{prompt}") & (table.layer == "cross.1")]
    assert len(here) == len(TARGET[prompt]) * len(PLAIN[prompt])
    assert here["query_text"].tolist() == [TARGET[prompt][i] for i in here["query"]]
    assert here["key_text"].tolist() == [PLAIN[prompt][j] for j in here["key"]]


@pytest.mark.parametrize("prompt", [0, 1])
def test_tokens_of_a_layer_are_those_of_its_queries(prompt: int) -> None:
    found = cross()
    table = tidy(found, "token", ["token_energy_dirichlet"])
    for place, texts in [(0, PLAIN), (DECODER, TARGET), (CROSS, TARGET)]:
        here = table[(table.prompt == f"text{prompt}") & (table.layer == list(READ)[place])]
        assert here["text"].tolist() == texts[prompt]
        expected = found["token_energy_dirichlet"].values[prompt, place, : len(texts[prompt])]
        np.testing.assert_array_equal(here["token_energy_dirichlet"], expected)


def names(axis: mpl.axis.Axis) -> list[str]:
    return [t.get_text() for t in axis.get_ticklabels()]


@pytest.mark.parametrize("prompt", [0, 1])
def test_a_drawn_matrix_has_both_texts(ax: Axes, prompt: int) -> None:
    found = cross()
    # what lies beyond a text is not drawn, even if it is a number
    found["walk_matrix"] = found["walk_matrix"].fillna(0.5)
    plot.walk(found, "cross.1", prompt, ax=ax)
    assert names(ax.yaxis) == [token_label(t) for t in TARGET[prompt]]
    assert names(ax.xaxis) == [token_label(t) for t in PLAIN[prompt]]
    expected = found["walk_matrix"].values[
        prompt, CROSS, : len(TARGET[prompt]), : len(PLAIN[prompt])
    ]
    np.testing.assert_array_equal(np.ma.filled(ax.images[0].get_array(), np.nan), expected)
    # a few rows by many columns would leave no room for their names if cells were squares
    assert ax.get_aspect() == "auto"


def test_a_drawn_map_of_tokens_is_of_one_text() -> None:
    found, axes = cross(), Figure().subplots(3)
    plot.tokens(found, prompt=1, ax=axes[0])
    assert names(axes[0].yaxis) == ["encoder.0", "cross.0", "cross.1"]
    assert names(axes[0].xaxis) == [token_label(t) for t in PLAIN[1]]
    assert "layers that read this text" in axes[0].get_title(loc="left")
    plot.tokens(found.isel(layer=slice(1, None)), "token_energy_leak", prompt=1, ax=axes[1])
    assert names(axes[1].yaxis) == ["decoder.0", "decoder.1", "cross.0", "cross.1"]
    assert names(axes[1].xaxis) == [token_label(t) for t in TARGET[1]]
    assert "layers that read" not in axes[1].get_title(loc="left")
    plot.diffusion(found, "decoder.1", 1, ax=axes[2])
    assert len(axes[2].collections[0].get_offsets()) == len(TARGET[1])


def test_a_page_holds_both_texts_and_which_layer_reads_which() -> None:
    found = cross()
    data = carried(report.page(found.assign(walk_matrix=found["walk_matrix"].fillna(0.5))))
    assert [p["tokens"] for p in data["prompts"]] == [list(t) for t in PLAIN]
    assert [p["others"] for p in data["prompts"]] == [{"token_text_target": t} for t in TARGET]
    assert [(row["query"], row["key"]) for row in data["layers"]] == list(READ.values())
    shapes = [row[CROSS]["shape"] for row in data["maps"]["walk_matrix"]["layers"]]
    assert shapes == [[4, 9], [7, 5]]
