"""A comparison in a browser that has no network."""

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, sync_playwright

from conwalk import report
from conwalk.results import layer_table
from figure_cases import figure_dataset
from test_report_browser import FLAGS, chromium

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

MADE = """(id) => {
    const figure = conwalk.figures.find((f) => f.element.id === id);
    return JSON.parse(JSON.stringify(figure.made.data));
}"""
HOSTILE = '<img src=x onerror="document.title=1"> & 你好'


def main_lines(page: Page, figure: str) -> list[dict]:
    return [trace for trace in page.evaluate(MADE, figure) if trace.get("meta") == "main"]


def test_every_figure_is_drawn_and_nothing_is_fetched(tmp_path: Path) -> None:
    models = [figure_dataset(layers=4, seed=0), figure_dataset(layers=7, seed=1)]
    path = report.write_comparison(models, tmp_path / "compare.html", ["tiny", HOSTILE])
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(playwright), args=list(FLAGS))
        page = browser.new_context(offline=True, viewport={"width": 1300, "height": 900}).new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: r.url.startswith("http") and complaints.append(r.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        open_figures = page.locator(".figure:not(details .figure)")
        assert open_figures.count() == page.locator(".figure[data-drawn=yes]").count() > 5
        for place, line in enumerate(main_lines(page, "curve-edge_rank")):
            np.testing.assert_array_equal(line["y"], layer_table(models[place])["edge_rank"])
        boxes = main_lines(page, "heads-rho")
        assert boxes[1]["median"][0] == pytest.approx(float(models[1]["rho"].median()))
        assert page.locator("h1").inner_text() == f"tiny beside {HOSTILE}"
        page.locator("#depth details summary").click()
        page.wait_for_selector("#depth details .figure[data-drawn=yes]")
        page.get_by_text("Dark", exact=True).click()
        assert page.locator("html").get_attribute("data-dark") == "yes"
        browser.close()
    assert complaints == []
