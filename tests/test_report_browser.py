"""Reports in a browser that has no network: what they show, and what keys and clicks do."""

import os
import re
import shutil
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from conwalk import report
from conwalk.report.digits import short
from conwalk.report.disk import replace
from report_cases import CASES, HOSTILE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

WIDE, NARROW = (1440, 1000), (360, 780)
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")


FIND = "const figure = conwalk.figures.find((f) => f.element.id === id);"
MADE = f"(id) => {{ {FIND} return JSON.parse(JSON.stringify({{ data: figure.made.data }})); }}"
TABLE = f"(id) => {{ {FIND} return JSON.parse(JSON.stringify(figure.table())); }}"
CELL = f"""([id, column, row]) => {{
    {FIND}
    figure.element.scrollIntoView({{ block: "center", behavior: "instant" }});
    const {{ xaxis, yaxis }} = figure.plot._fullLayout;
    const box = figure.plot.getBoundingClientRect();
    return [box.left + xaxis._offset + xaxis.c2p(column), box.top + yaxis._offset + yaxis.c2p(row)];
}}"""


@dataclass
class Visit:
    """A report that was opened, and what it complained about."""

    page: Page
    dataset: xr.Dataset
    complaints: list[str] = field(default_factory=list)

    def js(self, code: str) -> Any:
        return self.page.evaluate(code)

    def settled(self) -> None:
        """Wait for what was chosen to be drawn."""
        self.page.wait_for_function(
            "() => new Promise((done) => setTimeout(() => done(true), 250))"
        )

    def made(self, figure: str) -> dict[str, Any]:
        """What the figure of an element draws, without what cannot be handed over."""
        return self.page.evaluate(MADE, figure)

    def table(self, figure: str) -> dict[str, Any]:
        """The numbers that the figure of an element can be saved as."""
        return self.page.evaluate(TABLE, figure)


@cache
def page_of(case: str) -> tuple[xr.Dataset, str]:
    dataset = CASES[case]()
    return dataset, report.page(dataset)


def chromium(playwright: Playwright) -> str:
    named = os.environ.get("CONWALK_CHROMIUM")
    found = [named, *map(shutil.which, NAMES), playwright.chromium.executable_path]
    usable = [path for path in found if path and Path(path).exists()]
    if not usable:
        pytest.fail(
            "no Chromium for the browser tests: install one (apt-get install chromium, or "
            "python -m playwright install chromium) or name it in CONWALK_CHROMIUM",
            pytrace=False,
        )
    return usable[0]


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(playwright), args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Browser, tmp_path: Path) -> Generator[Any]:
    contexts: list[Any] = []

    def open_report(
        case: str, size: tuple[int, int] = WIDE, scheme: str = "light", **options: Any
    ) -> Visit:
        dataset, text = page_of(case)
        path = replace(tmp_path / f"{case}.html", text)
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, **options
        )
        contexts.append(context)
        context.set_offline(True)
        visited = Visit(context.new_page(), dataset)
        say = visited.complaints.append
        visited.page.on(
            "console", lambda m: say(m.text) if m.type in ("error", "warning") else None
        )
        visited.page.on("pageerror", lambda error: say(str(error)))
        visited.page.on("request", lambda r: say(r.url) if re.match("https?:", r.url) else None)
        visited.page.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            visited.page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
        return visited

    yield open_report
    for context in contexts:
        context.close()


def keep_picture(visited: Visit, name: str) -> None:
    folder = Path(os.environ.get("CONWALK_SCREENSHOTS", "build/screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    visited.page.screenshot(path=folder / f"{name}.png", full_page=True)


SEEN = [
    ("decoder", WIDE, "light"), ("decoder", NARROW, "dark"), ("encoder", WIDE, "dark"),
    ("hostile", NARROW, "light"), ("bare", WIDE, "light"), ("long", WIDE, "light"),
    ("two_stacks", WIDE, "light"), ("cross", WIDE, "light"),
    ("single", NARROW, "light"), ("nothing", WIDE, "light"),
]  # fmt: skip
EMPTY = {"bare": 11, "long": 1, "nothing": 27}


@pytest.mark.parametrize(("case", "size", "scheme"), SEEN)
def test_every_plot_is_drawn_and_nothing_complains(
    visit: Any, case: str, size: tuple[int, int], scheme: str
) -> None:
    visited = visit(case, size, scheme)
    assert visited.complaints == []
    assert not visited.page.locator("#failure").is_visible()
    drawn = visited.js("conwalk.figures.map((f) => f.element.dataset.drawn)")
    assert drawn.count("empty") == EMPTY.get(case, 0)
    assert set(drawn) <= {"yes", "empty"}
    plots = visited.js(
        "conwalk.figures.filter((f) => f.plot && f.element.dataset.drawn === 'yes')"
        ".map((f) => f.body.querySelectorAll('.main-svg .trace, .main-svg image').length)"
    )
    assert min(plots, default=1) > 0
    assert visited.js("document.documentElement.scrollWidth") <= size[0]
    keep_picture(visited, f"report-{case}-{scheme}-{size[0]}")


def test_the_graph_is_toggled_for_all_curves_of_stability(visit: Any) -> None:
    visited = visit("decoder")
    figures = ["stability-depth_tv", "stability-depth_frobenius"]

    def line(figure: str) -> list[float | None]:
        return next(t["y"] for t in visited.made(figure)["data"] if t.get("meta") == "main")

    for words, suffix in (
        ("Raw walk", ""),
        ("Sink removed", "_no_sink"),
        ("Value-weighted", "_value"),
    ):
        visited.page.locator("#stability").get_by_text(words, exact=True).click()
        visited.settled()
        for figure in figures:
            name = figure.removeprefix("stability-") + suffix
            assert line(figure) == visited.dataset[name].mean("prompt").values.tolist()
    visited.page.locator("#stability").get_by_text("All three", exact=True).click()
    visited.settled()
    names = [t["name"] for t in visited.made(figures[1])["data"] if t.get("meta") == "main"]
    assert names == ["Raw walk", "Sink removed", "Value-weighted"]
    visited.page.locator("#stability").get_by_text("Relative to even attention").click()
    visited.settled()
    assert line(figures[0]) == visited.dataset["depth_tv_relative"].mean("prompt").values.tolist()
    assert visited.complaints == []


def cell(visited: Visit, figure: str, column: int, row: int) -> tuple[float, float]:
    """Where a cell of an image is in the window."""
    place = visited.page.evaluate(CELL, [figure, column, row])
    return place[0], place[1]


def head_values(visited: Visit) -> dict[str, str]:
    rows = visited.page.locator("#head-table tbody tr")
    return {
        row.locator("th").inner_text(): row.locator("td").first.inner_text() for row in rows.all()
    }


def test_a_click_on_a_cell_opens_its_head(visit: Any) -> None:
    visited = visit("decoder")
    visited.page.mouse.click(*cell(visited, "head-map", 3, 1))
    visited.settled()
    assert visited.page.locator("#head-title").inner_text() == "Head 1 of layer 3"
    assert visited.js("document.activeElement.id") == "head-panel"
    shown = head_values(visited)
    assert shown["Isometry score of heads"] == short(visited.dataset["rho"].values[3, 1])
    curl = visited.dataset["curl_share"].mean("prompt").values[3, 1]
    assert shown["Curl share of the scores"] == short(curl)


def test_arrow_keys_and_enter_open_a_head(visit: Any) -> None:
    visited = visit("decoder")
    visited.page.locator("#head-map [role=application]").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowUp"):
        visited.page.keyboard.press(key)
    spoken = visited.page.locator("#head-map .cursor").inner_text()
    assert "head 1 of layer 2" in spoken
    assert short(visited.dataset["rho"].values[2, 1]) in spoken
    visited.page.keyboard.press("Enter")
    visited.settled()
    assert visited.page.locator("#head-title").inner_text() == "Head 1 of layer 2"


def test_any_metric_and_its_z_can_be_mapped(visit: Any) -> None:
    visited = visit("decoder")
    visited.page.locator("[name=metric]").select_option(label="Self-composition")
    visited.settled()
    trace = visited.made("head-map")["data"][0]
    assert np.array_equal(np.array(trace["z"]), visited.dataset["self_composition"].values.T)
    assert trace["zmin"] == -trace["zmax"]
    visited.page.locator("[name=metric]").select_option(label="Isometry score of heads")
    visited.page.locator("#heads").get_by_text("z against its null").click()
    visited.settled()
    trace = visited.made("head-map")["data"][0]
    assert np.array_equal(np.array(trace["z"]), visited.dataset["rho_z"].values.T)


def test_tokens_are_chosen_by_keyboard(visit: Any) -> None:
    visited = visit("encoder")
    chosen = visited.page.locator("#token-text [aria-selected=true]")
    assert chosen.count() == 1
    chosen.focus()
    visited.page.keyboard.press("Home")
    for _ in range(3):
        visited.page.keyboard.press("ArrowRight")
    visited.page.keyboard.press("ArrowLeft")
    visited.settled()
    assert chosen.get_attribute("id") == "token-2"
    assert visited.js("document.activeElement.id") == "token-2"
    layer = visited.js("conwalk.state.layer")
    walk = visited.dataset["walk_matrix"].values[0, layer]
    words = visited.page.locator("#token-words").inner_text()
    assert f"stays with {short(walk[2, 2])}" in words
    strongest = max((j for j in range(9) if j != 2), key=lambda j: walk[2, j])
    assert f"({strongest}) {short(walk[2, strongest])}" in words
    into = max((i for i in range(9) if i != 2), key=lambda i: walk[i, 2])
    assert f"({into}) {short(walk[into, 2])}" in words.split("It comes there most from")[1]
    arcs = visited.page.locator("#token-text svg path").count()
    assert arcs == 12
    table = visited.table("token-to")
    assert [row[5] for row in table["rows"]] == [
        float(f"{v:.3g}") for v in visited.dataset["walk_matrix"].values[0, :, 2, 4]
    ]
    visited.page.keyboard.press("End")
    assert chosen.get_attribute("id") == "token-8"


def test_the_text_is_that_of_the_queries_of_the_layer(visit: Any) -> None:
    visited = visit("cross")
    strip = visited.page.locator("#token-text [role=option]")
    arcs = visited.page.locator("#token-text svg path")
    words = visited.page.locator("#token-words")

    def at(layer: str) -> list[str]:
        visited.page.locator("#tokens [name=layer]").select_option(label=layer)
        visited.settled()
        return strip.all_inner_texts()

    assert len(at("encoder.0")) == 9
    assert arcs.count() > 0
    assert at("decoder.0") == ["<s>", "␣Der", "␣alte", "␣Wärter"]
    assert arcs.count() > 0
    assert len([row for row in visited.made("token-to")["data"][0]["z"] if any(row)]) == 2
    assert at("cross.1") == ["<s>", "␣Der", "␣alte", "␣Wärter"]
    assert arcs.count() == 0
    assert (
        "Arcs are drawn for layers whose queries and keys are the same text" in words.inner_text()
    )
    walk = visited.dataset["walk_matrix"].values[0, 4]
    token = visited.js("conwalk.state.token")
    best = int(np.nanargmax(walk[token]))
    assert f"({best}) {short(walk[token, best])}" in words.inner_text()
    table = visited.table("image-walk_matrix")
    plain = [str(name).strip("\u2068\u2069") for name in table["head"]]
    assert plain[1:4] == ["The", "␣old", "␣keeper"]
    assert [str(row[0]).strip("\u2068\u2069") for row in table["rows"]] == strip.all_inner_texts()
    visited.page.mouse.click(*cell(visited, "image-walk_matrix", 8, 1))
    visited.settled()
    assert visited.page.locator("#token-text [aria-selected=true]").inner_text() == "␣Der"
    assert len(at("encoder.0")) == 9
    assert visited.complaints == []


def test_hostile_text_shows_as_text(visit: Any) -> None:
    visited = visit("hostile")
    assert visited.js("window.hurt") is None
    strip = visited.page.locator("#token-text [role=option]")
    shown = strip.all_inner_texts()
    expected = [
        *HOSTILE[0][:8], "␣مرحبا", *HOSTILE[0][9:11], "↵", "⇥", "␣", "∅", "%{x}", "␛[31m", "=1+1",
    ]  # fmt: skip
    assert shown == expected
    assert strip.locator("bdi").count() == len(expected)
    assert visited.page.locator("#token-text b, #token-text a, #token-text img").count() == 0
    ticks = visited.page.locator("#token-to .xtick text").all_text_contents()
    assert "\u2068<b>bold</b>\u2069" in ticks
    assert visited.page.locator("#token-to a, #layer .plotly a, #layer .plotly b").count() == 0
    visited.page.mouse.move(*cell(visited, "image-walk_matrix", 9, 10))
    hover = visited.page.locator("#image-walk_matrix .hoverlayer").text_content()
    assert hover is not None
    assert '<a href="javascript:hurt()">' in hover
    options = visited.page.locator("[name=prompt]").first.locator("option").all_inner_texts()
    assert options[0].startswith("<script>window.hurt=1</script> (18")
    assert visited.complaints == []


def test_cells_say_the_number_of_the_results(visit: Any) -> None:
    visited = visit("decoder")
    layer = visited.js("conwalk.state.layer")
    for name in ("walk_matrix", "edge_norm", "edge_effective_rank"):
        texts = visited.made(f"image-{name}")["data"][0]["text"]
        values = visited.dataset[name].values[0, layer]
        for i, j in np.ndindex(9, 9):
            assert texts[i][j].endswith(f" = {short(values[i, j])}")


def test_tables_and_downloads_hold_the_numbers(visit: Any) -> None:
    visited = visit("decoder")
    figure = visited.page.locator("#curve-rho")
    figure.get_by_role("button", name=re.compile("^Table")).click()
    cells = figure.locator("tbody tr").first.locator("th, td").all_inner_texts()
    rho = visited.dataset["rho"].values[0]
    null = visited.dataset["rho_null_mean"].values[0]
    low, high = np.quantile(rho, [0.25, 0.75])
    assert cells[:5] == ["0", *(short(v) for v in (np.median(rho), low, high, np.median(null)))]
    found: dict[str, bytes] = {}
    for kind in ("CSV", "SVG", "PNG"):
        with visited.page.expect_download() as waiting:
            figure.get_by_role("button", name=re.compile(f"^{kind}")).click()
        assert waiting.value.suggested_filename == f"isometry-score-of-heads.{kind.lower()}"
        found[kind] = Path(waiting.value.path()).read_bytes()
    lines = found["CSV"].decode("utf-8-sig").split("\r\n")
    assert lines[0].startswith("layer,value,lower quartile,upper quartile,chance")
    assert float(lines[1].split(",")[1]) == np.median(rho)
    assert found["SVG"].lstrip().startswith(b"<svg")
    assert b"Isometry score of heads" in found["SVG"]
    assert found["PNG"].startswith(b"\x89PNG")
    assert visited.complaints == []


def test_a_spreadsheet_runs_nothing_of_a_csv(visit: Any) -> None:
    visited = visit("hostile")
    assert visited.js('conwalk.csv({ head: ["a"], rows: [["=1+1"], [-1.5], [\'x"y\']] })') == (
        'a\r\n\'=1+1\r\n-1.5\r\n"x""y"\r\n'
    )


def test_browser_and_python_write_numbers_alike(visit: Any) -> None:
    visited = visit("single")
    rng = np.random.default_rng(0)
    values = (rng.normal(size=3000) * 10.0 ** rng.integers(-12, 12, 3000)).tolist()
    values += [0.03125, 0.0625, 999.5, 0.0, 1.0, 999_600.0, 0.00099951]
    assert visited.js(f"{values!r}.map(conwalk.short)") == [short(v) for v in values]


def test_the_circle_of_the_spectrum_has_the_scale_of_the_transports(visit: Any) -> None:
    visited = visit("decoder")
    prompt, layer = visited.js("[conwalk.state.prompt, conwalk.state.layer]")
    shapes = visited.js(
        "conwalk.figures.find((f) => f.element.id === 'layer-spectrum').plot.layout.shapes"
    )
    scale = float(visited.dataset["spectrum_scale"].values[prompt, layer])
    assert [shape["x1"] for shape in shapes] == pytest.approx([scale])
    note = visited.page.inner_text("#layer-spectrum")
    assert f"s = {short(scale)}" in note


def test_light_and_dark_are_switched_by_hand(visit: Any) -> None:
    visited = visit("decoder", scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    tick = "document.querySelector('#curve-rho .xtick text').style.fill"
    dark = visited.js(ground), visited.js(tick)
    visited.page.get_by_text("Light", exact=True).click()
    visited.settled()
    light = visited.js(ground), visited.js(tick)
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    assert light[0] == "rgb(255, 255, 255)"


def test_the_first_key_leads_to_the_content(visit: Any) -> None:
    visited = visit("single")
    visited.page.keyboard.press("Tab")
    assert visited.js("document.activeElement.className") == "skip"
    visited.page.keyboard.press("Enter")
    assert visited.js("document.activeElement.id") == "content"


def test_a_link_to_a_definition_opens_it(visit: Any) -> None:
    visited = visit("decoder")
    visited.page.locator("#curve-curl_share .symbol").click()
    visited.settled()
    assert visited.page.locator("#def-curl_share").is_visible()


def test_text_and_tables_stand_without_scripts(visit: Any) -> None:
    visited = visit("decoder", java_script_enabled=False)
    text = visited.page.locator("#summary").inner_text()
    assert "4 attention layers of 3 heads" in text
    assert visited.page.locator("#summary table").first.is_visible()
    assert visited.page.get_by_text("The plots need JavaScript").is_visible()


def test_a_thousand_tokens_do_not_freeze_the_page(visit: Any) -> None:
    visited = visit("long")
    marks = visited.js(
        "conwalk.figures.filter((f) => f.plot).map((f) => f.body.querySelectorAll('*').length)"
    )
    assert max(marks) < 1500
    assert (
        visited.js(
            """(async () => { const start = performance.now();
        conwalk.choose({ layer: 2 });
        await Promise.all(conwalk.figures.map((f) => f.update()));
        return performance.now() - start; })()"""
        )
        < 5000
    )
    texts = visited.made("image-walk_matrix")["data"][0]["text"]
    value = visited.dataset["walk_matrix"].values[0, 2, 200, 17]
    assert texts[200][17].endswith(f" = {short(value)}")
