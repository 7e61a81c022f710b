"""A comparison holds the numbers of the results, and leaves out what cannot be compared."""

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from conwalk import report
from conwalk.errors import SelectionError
from conwalk.report.digits import short
from conwalk.report.side_by_side import compared, fresh_of
from conwalk.results import layer_table
from figure_cases import figure_dataset

A, B = figure_dataset(layers=4, seed=0), figure_dataset(layers=7, seed=1)


def shorter(dataset: xr.Dataset) -> xr.Dataset:
    """The same numbers as if of texts of another length."""
    return dataset.assign_coords(n_tokens=dataset["n_tokens"] - 1)


def data_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def cells(page: str, title: str) -> list[str]:
    row = re.search(rf'<tr><th scope="row">{re.escape(title)}</th>(.*?)</tr>', page, re.DOTALL)
    assert row is not None
    return [unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", row[1])]


def test_curves_are_those_of_the_layer_tables_over_relative_depth() -> None:
    found = data_of(report.comparison([A, B]))["quantities"]
    for place, dataset in enumerate((A, B)):
        for name in ("rho", "edge_rank", "energy_total", "residual"):
            course = found[name]["courses"][place]
            np.testing.assert_array_equal(course["values"], layer_table(dataset)[name])
        depth = found["rho"]["courses"][place]["depth"]
        np.testing.assert_allclose(depth, np.linspace(0, 1, dataset.sizes["layer"]))
    assert found["rho"]["courses"][0]["chance"] == [0.97] * 4
    assert found["rho"]["courses"][0]["sd"] == [0.01] * 4
    assert found["inverse_defect"]["courses"][1]["chance"] == [1.0] * 7


def test_boxes_hold_all_heads_of_all_layers() -> None:
    found = data_of(report.comparison([A, B]))["quantities"]["rho"]["courses"][1]
    assert found["count"] == 21
    shares = np.quantile(B["rho"], [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1])
    np.testing.assert_allclose(found["heads"], shares)


def test_the_table_has_medians_chances_and_the_difference() -> None:
    first, second = (float(layer_table(d)["rho"].median()) for d in (A, B))
    shown = cells(report.comparison([A, B]), "Isometry score of heads")
    sign = "+" if second > first else ""
    assert shown == [short(first), "0.970", short(second), "0.970", sign + short(second - first)]


def test_what_depends_on_length_is_shown_over_its_null_or_left_out() -> None:
    shown, left = compared([A, shorter(B)])
    curl = next(q for q in shown if q.name == "curl_share")
    assert curl.relative
    assert curl.courses[1] is not None
    np.testing.assert_allclose(curl.courses[1].values, layer_table(B)["curl_share"] / 0.75)
    np.testing.assert_array_equal(curl.courses[1].chance, 1.0)
    reasons = {entry.name: entry.reason for entry in left}
    assert "depends on the number of tokens" in reasons["sink_fraction"]
    assert not next(q for q in shown if q.name == "rho").relative
    same = {q.name: q for q in compared([A, B])[0]}
    assert not same["curl_share"].relative
    assert "sink_fraction" in same


def test_other_definitions_and_lone_quantities_are_left_out_with_the_reason() -> None:
    other = B.copy()
    other["rho"] = other["rho"].assign_attrs(symbol="something else")
    del other["edge_rank"]
    reasons = {entry.name: entry.reason for entry in compared([A, other])[1]}
    assert reasons["rho"] == "defined differently: not the same formula"
    assert reasons["edge_rank"] == "only one holds it"
    page = report.comparison([A, other])
    assert "defined differently: not the same formula:</strong> Isometry score of heads" in page


def test_trained_beside_fresh_of_the_same_results() -> None:
    both = A.assign({f"{n}_fresh": v * 0.5 for n, v in A.data_vars.items()})
    found = data_of(report.comparison([both]))
    assert found["models"] == ["tiny-0", "fresh weights"]
    trained, fresh = found["quantities"]["edge_rank"]["courses"]
    np.testing.assert_array_equal(trained["values"], layer_table(A)["edge_rank"])
    np.testing.assert_allclose(fresh["values"], layer_table(A)["edge_rank"] / 2)
    assert fresh_of(A) is None


def test_names_tell_two_results_of_one_model_apart(tmp_path: Path) -> None:
    assert data_of(report.comparison([A, A]))["models"] == ["tiny-0 (1)", "tiny-0 (2)"]
    written = report.write_comparison([A, A], tmp_path / "c.html", ["step 1", "<b>step 2</b>"])
    page = written.read_text(encoding="utf-8")
    assert "step 1 beside &lt;b&gt;step 2&lt;/b&gt;" in page
    assert "<b>step" not in page


def test_one_alone_too_many_or_nothing_in_common() -> None:
    with pytest.raises(SelectionError, match="1 results cannot be compared: give 2 to 5, or one"):
        report.comparison([A])
    with pytest.raises(SelectionError, match="6 results cannot be compared"):
        report.comparison([A] * 6)
    with pytest.raises(SelectionError, match=r"nothing in these results .*rho: only one holds it"):
        report.comparison([A[["rho", "n_tokens"]], B[["entropy", "n_tokens"]]])
