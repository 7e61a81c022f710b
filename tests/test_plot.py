"""Figures show the numbers of the dataset; a figure is the same file every time."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from conwalk import plot
from conwalk.errors import OutputError, SelectionError
from conwalk.plot.areas import TERMS
from conwalk.plot.fonts import drawable, token_label
from conwalk.plot.scatter import apart
from conwalk.results import layer_table
from figure_cases import TOKENS, figure_dataset


@pytest.fixture
def ax() -> Axes:
    return Figure().subplots()


def curves(ax: Axes) -> dict[str, np.ndarray]:
    return {str(line.get_label()): np.asarray(line.get_ydata()) for line in ax.lines}


def drawn_matrix(ax: Axes) -> np.ndarray:
    return np.ma.filled(ax.images[0].get_array(), np.nan)


def test_depth_draws_the_layer_table_and_its_null(ax: Axes) -> None:
    found = figure_dataset()
    plot.depth(found, "rho", ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), layer_table(found)["rho"])
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [0, 1, 2, 3])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [0.97] * 4)
    heads, band = (c.get_paths()[0].vertices for c in ax.collections)
    assert (band[:, 1].min(), band[:, 1].max()) == pytest.approx((0.95, 0.99))
    low = np.quantile(found["rho"].isel(layer=2), 0.1)
    assert heads[heads[:, 0] == 2][:, 1].min() == pytest.approx(low)
    assert "chance: Gaussian factors of the same shape, ± 2 standard" in legend(ax)


def legend(ax: Axes) -> str:
    box = ax.get_legend()
    assert box is not None
    return "\n".join(text.get_text() for text in box.get_texts())


def test_a_null_that_is_one_number_is_a_level_line(ax: Axes) -> None:
    plot.depth(figure_dataset(), "inverse_defect", ax=ax)
    assert ax.lines[1].get_ydata() == [1.0, 1.0]
    assert "chance: 1 for independent random head maps" in legend(ax)


def test_several_models_share_a_panel_over_relative_depth() -> None:
    models = [figure_dataset(layers=4, seed=0), figure_dataset(layers=7, seed=1)]
    (panel,) = plot.compose("depth", models, metrics=["edge_rank"]).axes
    first, _, _, second, *_ = panel.lines
    np.testing.assert_allclose(first.get_xdata(), np.arange(4) / 3)
    np.testing.assert_allclose(second.get_xdata(), np.arange(7) / 6)
    np.testing.assert_array_equal(second.get_ydata(), layer_table(models[1])["edge_rank"])
    assert legend(panel).split("\n") == ["tiny-0", "tiny-1", "chance: Gaussian heads"]


def test_no_line_joins_two_stacks(ax: Axes) -> None:
    found = figure_dataset().assign_coords(
        layer=np.array(["encoder.0", "encoder.1", "decoder.0", "decoder.1"], dtype=object),
        stack=("layer", np.array(["encoder", "encoder", "decoder", "decoder"], dtype=object)),
    )
    plot.depth(found, "edge_rank", ax=ax)
    assert [len(line.get_xdata()) for line in ax.lines[:4]] == [2, 2, 2, 2]
    assert [t.get_text() for t in ax.get_xticklabels()][2] == "decoder.0"


def test_stability_draws_three_ways(ax: Axes) -> None:
    found = figure_dataset()
    plot.stability(found, ax=ax)
    for words, suffix in (("walk", ""), ("first", "_no_sink"), ("value", "_value")):
        (line,) = [y for name, y in curves(ax).items() if name.startswith(words)]
        np.testing.assert_array_equal(line, layer_table(found)[f"depth_tv{suffix}"])


def test_conditions_are_shares_of_their_nulls(ax: Axes) -> None:
    found = figure_dataset()
    plot.conditions(found, ax=ax)
    table, shown = layer_table(found), curves(ax)
    np.testing.assert_allclose(shown["scores reversible"], table["curl_share"] / 0.75)
    np.testing.assert_allclose(shown["heads isometric"], (1 - table["rho"]) / 0.03)
    np.testing.assert_allclose(shown["transport back is the transpose"], table["inverse_defect"])


def test_ledger_areas_add_up(ax: Axes) -> None:
    found = figure_dataset()
    plot.ledger(found, ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), layer_table(found)["energy_total"])
    terms = layer_table(found)[[f"energy_{t}" for t in TERMS]]
    edge = np.concatenate([c.get_paths()[0].vertices for c in ax.collections])
    for x in range(4):
        heights = edge[edge[:, 0] == x][:, 1]
        assert heights.max() == pytest.approx(terms.loc[x].clip(lower=0).sum())
        assert heights.min() == pytest.approx(terms.loc[x].clip(upper=0).sum())


def test_heads_are_centred_on_zero_only_where_there_is_a_sign() -> None:
    found, (left, right) = figure_dataset(), Figure().subplots(1, 2)
    plot.heads(found, "rho_z", ax=left)
    plot.heads(found, "curl_share", ax=right)
    np.testing.assert_array_equal(drawn_matrix(left), found["rho_z"])
    assert left.images[0].norm.vmin == -left.images[0].norm.vmax
    np.testing.assert_allclose(drawn_matrix(right), found["curl_share"].mean("prompt"))
    assert right.images[0].norm.vmin == drawn_matrix(right).min()


@pytest.mark.parametrize("name", ["walk_matrix", "edge_effective_rank", "edge_norm"])
def test_maps_of_tokens_end_where_the_prompt_ends(ax: Axes, name: str) -> None:
    found = figure_dataset()
    if name == "walk_matrix":
        plot.walk(found, 2, 1, ax=ax)
    else:
        plot.edges(found, 2, 1, quantity=name, ax=ax)
    expected = found[name][1, 2, :5, :5].values.astype(float)
    np.testing.assert_array_equal(drawn_matrix(ax), np.where(expected == 0, np.nan, expected))
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert labels == [token_label(t) for t in TOKENS[1]]


def test_singular_values_stand_over_their_root_mean_square(ax: Axes) -> None:
    found = figure_dataset()
    plot.singular_values(found, 1, 2, ax=ax)
    sigma = found["singular_values"][1, 2].values.astype(float)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), sigma / np.sqrt((sigma**2).mean()))
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (0.8, 1.2)


def test_eigenvalues_stand_over_the_scale_beside_the_unit_circle(ax: Axes) -> None:
    found = figure_dataset()
    found["spectrum_scale"] = (("prompt", "layer"), np.full((2, 4), 2.0))
    plot.spectrum(found, 3, 1, ax=ax)
    points = np.asarray(ax.collections[0].get_offsets())
    np.testing.assert_allclose(points[:, 0], found["spectrum_real"][1, 3] / 2)
    np.testing.assert_allclose(points[:, 1], found["spectrum_imag"][1, 3] / 2)
    np.testing.assert_allclose(np.hypot(*ax.lines[0].get_data()), 1)


def test_distances_of_layers(ax: Axes) -> None:
    found = figure_dataset()
    plot.distances(found, ax=ax)
    np.testing.assert_allclose(drawn_matrix(ax), found["operator_distance"].mean("prompt"))


def test_tokens_show_where_the_walk_goes_unless_asked_otherwise() -> None:
    found, (left, right) = figure_dataset(), Figure().subplots(1, 2)
    plot.tokens(found, prompt=1, ax=left)
    plot.tokens(found, "token_energy_dirichlet", prompt=1, ax=right)
    np.testing.assert_allclose(
        drawn_matrix(left), found["walk_matrix"][1, :, :5, :5].mean("query"), rtol=1e-6
    )
    np.testing.assert_array_equal(drawn_matrix(right), found["token_energy_dirichlet"][1, :, :5])


def test_the_map_of_tokens_has_one_point_a_token(ax: Axes) -> None:
    found = figure_dataset()
    plot.diffusion(found, 0, 1, ax=ax)
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), found["diffusion_map"][1, 0, :5])


def test_names_of_points_keep_apart() -> None:
    places = np.array([[0.5, 0.5], [0.51, 0.5], [0.9, 0.9], [0.1, 0.52]])
    assert apart(places) == [2, 3, 1]


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "svg") for name in plot.FIGURES), ("depth", "pdf"), ("walk", "png")]
)
def test_every_figure_is_the_same_file_again(tmp_path: Path, name: str, kind: str) -> None:
    found = figure_dataset()
    first, again = tmp_path / f"a.{kind}", tmp_path / f"b.{kind}"
    for path in (first, again):
        plot.write(plot.compose(name, [found]), path)
    assert first.read_bytes() == again.read_bytes()
    assert b"dc:date" not in first.read_bytes()


def test_settings_of_the_caller_stay_as_they_are() -> None:
    before = dict(mpl.rcParams)
    plot.compose("depth", [figure_dataset()])
    assert dict(mpl.rcParams) == before


def test_without_axes_a_figure_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: pytest.fail("nothing is shown unasked"))
    ax = plot.heads(figure_dataset())
    assert ax.get_figure() is plt.gcf()
    plt.close("all")


def test_what_no_font_has_is_a_box_and_a_dollar_is_a_dollar() -> None:
    assert drawable("a\U0010ffffb") == "a□b"
    assert token_label("\n") == "↵"
    assert token_label(" abcdefghijklmnop") == "abcdefghijk…"
    ax = plot.walk(figure_dataset(), 0, 0, ax=Figure().subplots())
    dollar = next(t for t in ax.get_yticklabels() if t.get_text() == "$x$")
    assert dollar.get_parse_math() is False
    named = figure_dataset().assign_coords(prompt=["$a$ story", "b"])
    drawn = plot.compose("walk", [named]).axes[0]
    assert "$a$ story" in drawn.get_title(loc="left")
    (title,) = [t for t in drawn.findobj(Text) if "$a$" in t.get_text()]
    assert title.get_parse_math() is False


@pytest.mark.parametrize(
    ("name", "asked", "message"),
    [
        ("nope", {}, "there is no figure 'nope': choose from depth, conditions"),
        ("walk", {"head": 1}, "figure walk has no --head: it takes --layer, --prompt"),
        ("walk", {"layer": "9"}, "layer 9 is not in these results: choose from 0, 1, 2, 3"),
        ("singular_values", {"head": 7}, "head 7 is not in these results"),
        ("diffusion", {"prompt": "none"}, "prompt none is not in these results"),
        ("depth", {"metrics": ["rhoo"]}, "no 'rhoo': did you mean rho"),
        ("heads", {"metrics": ["edge_rank"]}, "edge_rank has no heads"),
        ("edges", {"metrics": ["weight"]}, "edges have no 'weight': choose from rank, norm"),
        ("distances", {"metrics": ["rho"]}, "rho is no distance of any two layers"),
    ],
)
def test_what_cannot_be_drawn_is_said(name: str, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        plot.compose(name, [figure_dataset()], **asked)


@pytest.mark.parametrize("name", ["walk", "edges", "spectrum", "diffusion", "distances"])
def test_results_without_details_say_so(name: str) -> None:
    with pytest.raises(SelectionError, match="these results hold no"):
        plot.compose(name, [figure_dataset(details=False)])


def test_a_kind_of_file_that_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"is no kind of figure: end it in .pdf, .svg, .png"):
        plot.write(plot.compose("depth", [figure_dataset()]), tmp_path / "figure.txt")
