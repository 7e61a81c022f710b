"""A report as text: complete in itself, safe against what prompts say, whole on disk."""

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from conwalk import report
from conwalk.errors import OutputError
from conwalk.report.digits import short
from conwalk.report.disk import replace
from conwalk.report.template import as_json
from conwalk.results import layer_table, save
from report_cases import CASES, HOSTILE, report_dataset


class Elements(HTMLParser):
    """The elements of a page, and the text of those that are named by an id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.by_id: dict[str, str] = {}
        self._inside: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = dict(attrs).get("id") if tag in ("script", "style") else None
        self._code = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._inside, self._code = None, False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.by_id[self._inside] = data
        elif not getattr(self, "_code", False):
            self.text.append(data)


def carried(page: str) -> dict[str, Any]:
    return json.loads(Elements(page).by_id["data"])


def block(page: str, ref: dict[str, Any]) -> np.ndarray:
    raw = zlib.decompress(base64.b64decode(Elements(page).by_id[f"block-{ref['block']}"]))
    assert ref["kind"] == "exact"
    planes = np.frombuffer(raw, np.uint8).reshape(8, -1)
    return np.ascontiguousarray(planes.T).view("<f8").reshape(ref["shape"])


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_loaded_from_anywhere(case: str) -> None:
    elements = Elements(report.page(CASES[case]()))
    for tag, attrs in elements.tags:
        assert "src" not in attrs, (tag, attrs)
        if tag == "link":
            assert attrs["href"] == "data:,"
        if tag == "a":
            assert str(attrs["href"]).startswith("#")
    (policy,) = [a["content"] for t, a in elements.tags if t == "meta" and "http-equiv" in a]
    assert str(policy).startswith("default-src 'none'")
    assert "http" not in str(policy)


@pytest.mark.parametrize("case", CASES)
def test_links_within_the_page_lead_somewhere(case: str) -> None:
    page = report.page(CASES[case]())
    ids = set(re.findall(r'\bid="([^"]+)"', page))
    links = {str(a["href"])[1:] for t, a in Elements(page).tags if t == "a"}
    assert {link for link in links - ids if not link.startswith("def-")} == set()
    assert len(re.findall(r'\bid="([^"]+)"', page)) == len(ids)


def test_what_prompts_and_models_say_stays_text() -> None:
    page = report.page(CASES["hostile"]())
    assert "<script>window" not in page
    assert "<img" not in page
    assert "<b>9" not in page
    elements = Elements(page)
    assert [prompt["tokens"] for prompt in carried(page)["prompts"]] == [list(r) for r in HOSTILE]
    text = "".join(elements.text)
    assert "</script><script>window.hurt=1</script> as a connection walk" in text
    assert 'layer <b>9</b>: "<script>window.hurt=1</script>"' in text


def test_json_cannot_end_its_script() -> None:
    value = ["</script>", "<!--", "&lt;", "\u2028\u2029", "\u202e", 'a"b\\']
    written = as_json(value)
    assert re.search(r"[<>&\u2028\u2029]", written) is None
    assert json.loads(written) == value


def test_numbers_in_the_page_are_those_of_the_results() -> None:
    dataset = report_dataset(seed=21)
    page = report.page(dataset)
    variables = carried(page)["variables"]
    table = layer_table(dataset)
    for name in ("rho", "curl_share", "edge_rank", "energy_total"):
        assert variables[name]["numbers"]["line"] == table[name].tolist()
    curl = block(page, variables["curl_share"]["numbers"])
    assert np.array_equal(curl[1:], dataset["curl_share"].values)
    assert np.allclose(curl[0], dataset["curl_share"].mean("prompt").values)
    worst = block(page, variables["residual"]["numbers"])
    assert np.array_equal(worst[0], dataset["residual"].max("prompt").values)
    null = variables["rho"]["null"]
    assert np.array_equal(block(page, null["z"]), dataset["rho_z"].values)
    assert variables["inverse_defect"]["null"]["constant"] == 1.0


def test_tables_of_the_page_are_those_of_the_results() -> None:
    dataset = report_dataset(seed=22)
    text = "|".join(Elements(report.page(dataset)).text)
    table = layer_table(dataset)
    for name in ("rho", "edge_rank", "curl_share"):
        assert f"|{short(table[name].median())}|" in text
        for value in table[name]:
            assert f"|{short(value)}|" in text


def test_what_stands_beside_a_quantity_is_no_quantity_of_its_own() -> None:
    names = carried(report.page(report_dataset()))["variables"]
    assert "depth_tv" in names
    assert not {"rho_z", "rho_null_mean", "curl_share_chance", "depth_tv_z"} & set(names)
    assert not {"walk_matrix", "operator_distance", "singular_values"} & set(names)


def test_what_is_missing_is_said_with_how_to_get_it() -> None:
    page = report.page(CASES["bare"]())
    assert "conwalk analyze MODEL --metrics default,spectrum" in page
    assert carried(page)["ledgers"] == []
    assert carried(page)["maps"] == {"left_out": 0}


def test_maps_fill_the_room_and_no_more() -> None:
    dataset = CASES["long"]()
    whole, tight = report.page(dataset), report.page(dataset, megabytes=3.7)
    assert carried(whole)["maps"]["left_out"] == 0
    left_out = carried(tight)["maps"]["left_out"]
    assert left_out > 0
    assert len(tight) < 3_700_000
    kept = [ref for ref in carried(tight)["maps"]["walk_matrix"]["layers"][0] if ref]
    ranks = [ref for ref in carried(tight)["maps"]["edge_norm"]["layers"][0] if ref]
    assert len(kept) >= len(ranks)


def test_images_are_cut_to_their_prompt() -> None:
    maps = carried(report.page(report_dataset()))["maps"]
    assert [row[0]["shape"] for row in maps["walk_matrix"]["layers"]] == [[9, 9], [5, 5]]
    assert [row[0]["shape"] for row in maps["edge_norm"]["layers"]] == [[9, 9], [5, 5]]
    assert [row[0]["shape"] for row in maps["diffusion_map"]["layers"]] == [[9, 3], [5, 3]]


def test_many_prompts_share_one_mean_and_the_first_can_be_chosen() -> None:
    dataset = report_dataset(tokens=[["a", "b", "c"]] * 11, details=False, seed=5)
    page = report.page(dataset)
    data = carried(page)
    assert (len(data["prompts"]), data["allPrompts"]) == (8, 11)
    found = block(page, data["variables"]["edge_rank"]["numbers"])
    assert found.shape == (9, 4)
    assert np.allclose(found[0], dataset["edge_rank"].values.mean(0))


def test_results_read_back_from_disk_make_the_same_page(tmp_path: Path) -> None:
    from conwalk.results import read

    dataset = report_dataset()
    save(dataset, tmp_path)
    read_back: xr.Dataset = read(tmp_path)
    assert (
        carried(report.page(read_back))["variables"] == carried(report.page(dataset))["variables"]
    )


def test_write_replaces_an_older_page_in_one_step(tmp_path: Path) -> None:
    place = tmp_path / "new" / "report.html"
    assert report.write(report_dataset(), place) == place
    first = place.read_text(encoding="utf-8")
    report.write(report_dataset(seed=1), place)
    assert place.read_text(encoding="utf-8") != first
    assert [p.name for p in place.parent.iterdir()] == ["report.html"]


def test_a_page_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "report.html"
    place.write_text("old")

    def refuse(_self: Path, _target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OutputError, match="No space left on device"):
        replace(place, "new")
    assert place.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_in_the_way_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        replace(tmp_path, "page")
