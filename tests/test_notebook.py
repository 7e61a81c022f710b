"""What a notebook shows: cards of objects, results with what can be done, reports in a frame."""

import base64
import io
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import sync_playwright
from torch import nn

import conwalk as cw
from conwalk import markup
from conwalk.connection.cards import thumbnail
from conwalk.errors import InputError
from conwalk.metrics import ALL
from conwalk.models import Model
from conwalk.models.sites import Refusal
from conwalk.pipeline import Verification
from conwalk.results import layer_table, save
from figure_cases import PROMPTS, figure_dataset
from test_report_browser import FLAGS, chromium

VOID = {"img", "meta", "br", "link", "base", "input"}


class Balanced(HTMLParser):
    """Text of some HTML whose every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.tags: set[str] = set()
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def words(thing: Any) -> str:
    return " ".join(Balanced(thing._repr_html_()).text)


def walk(*, causal: bool = True, **more: Any) -> cw.ConnectionWalk:
    torch.manual_seed(0)
    scores = torch.randn(4, 6, 6)
    if causal:
        scores = scores.masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)
    return cw.ConnectionWalk(scores.softmax(-1), torch.randn(2, 8, 3), torch.randn(4, 3, 8), **more)


def test_a_walk_says_its_sizes_its_kind_and_its_row_sums() -> None:
    said = words(walk())
    for part in ("6 receive, 6 send", "4 on 2 value heads", "8 → 3 → 8", "torch.float32", "causal"):
        assert part in said
    assert "to all tokens" in words(walk(causal=False))
    leaking = cw.ConnectionWalk(
        walk().attention * torch.linspace(0.5, 1, 6)[:, None], walk().transports.W_V,
        walk().transports.W_O,
    )  # fmt: skip
    assert "0.5 to 1" in words(leaking)
    assert "signed weights" in words(cw.ConnectionWalk(
        -walk().attention, walk().transports.W_V, walk().transports.W_O))  # fmt: skip
    assert "gated at the receiver" in words(walk(output_gate=torch.ones(4, 6, 3)))


def test_the_picture_of_a_walk_is_its_walk_matrix() -> None:
    shown = walk()
    found = re.search(r'src="data:image/png;base64,([^"]+)"', shown._repr_html_())
    assert found is not None
    image = Image.open(io.BytesIO(base64.b64decode(found[1])))
    matrix = shown.walk_matrix().sqrt()
    np.testing.assert_allclose(
        np.asarray(image) / 255, matrix / matrix.max(), atol=0.5 / 255 + 1e-6
    )


def test_a_picture_of_a_long_text_stays_small() -> None:
    small = thumbnail(torch.rand(1000, 700))
    assert small.shape == (128, 128)
    assert float(small.max()) == 1


def test_pictures_are_white_at_0_and_dark_at_1() -> None:
    image = Image.open(io.BytesIO(markup.png([[0.0, 1.0], [-3.0, 7.0]]))).convert("RGB")
    assert [image.getpixel(p) for p in ((0, 0), (1, 0), (0, 1), (1, 1))] == [
        (247, 251, 255), (8, 48, 107), (247, 251, 255), (8, 48, 107),
    ]  # fmt: skip


def test_generators_and_transports_say_their_numbers() -> None:
    shown = walk()
    said = words(shown.generator(2.5))
    assert "2.5" in said
    assert "causal" in said
    sigma = np.linalg.svd(np.stack([shown.transports.matrix(h) for h in range(4)]))[1][:, :3]
    scores = sigma.sum(1) / (3**0.5 * np.sqrt((sigma**2).sum(1)))
    assert f"{scores.min():.4g} to {scores.max():.4g}" in words(shown.transports)


def test_metrics_and_quantities_say_their_records() -> None:
    metric = next(m for m in ALL if m.name == "entropy")
    said = words(metric)
    for quantity in metric.quantities:
        assert quantity.name in said
        assert quantity.meaning in said
        assert quantity.symbol in words(quantity)
    assert "[0, …] nat" in said


def test_models_and_proofs_hide_no_text_as_markup() -> None:
    model = Model(nn.Linear(3, 4), None, "<script>alert(1)</script>", "live", notes=("a < b",))
    found = Balanced(model._repr_html_())
    assert "script" not in found.tags
    assert "<script>alert(1)</script>" in found.text
    assert "16" in found.text
    assert "a < b" in found.text
    proof = Verification(torch.float32, 5e-6, refused=(Refusal("layer 3", "it is <odd>"),))
    assert "it is <odd>" in words(proof)
    assert "0 of 1 layers exact" in words(proof)


def test_results_say_what_they_are_and_what_can_be_done_with_them(tmp_path: Path) -> None:
    found = figure_dataset()
    said = words(found.conwalk)
    assert "tiny-0: 4 layers, 2 prompts, 13 tokens" in said
    assert f"{layer_table(found)['rho'][2]:.3g}" in said
    assert found.conwalk.refused == [{"name": "text 3", "reason": "it is empty"}]
    assert found.conwalk.summary().splitlines()[1:] == [
        "all 4 layers: stochastic; irreversible (κ .01 to .31, chance .98)",
        "refused: text 3: it is empty",
    ]
    assert list(found.conwalk.table("head", ["rho"])) == [
        "layer", "head", "rho", "rho_null_mean", "rho_null_sd", "rho_z",
    ]  # fmt: skip
    page = found.conwalk.report(tmp_path / "r.html")
    assert "tiny-0" in page.read_text(encoding="utf-8")


def test_outside_a_notebook_a_file_is_named_and_nothing_opened(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = cw.show(walk())
    assert path is not None
    assert capsys.readouterr().out == f"open {path}\n"
    assert "6 receive, 6 send" in path.read_text(encoding="utf-8")


def test_what_cannot_be_shown_is_said() -> None:
    with pytest.raises(InputError, match="a str cannot be shown: give results of analyze"):
        cw.show("text")


CELLS = """\
import conwalk as cw, sys
results = cw.read({folder!r})
cw.show(results, height=600)
---
import numpy as np
parts = {attention}, [[[1.0], [2.0]]], [[[1.0, 0.5]]]
cw.show(cw.ConnectionWalk(*map(np.array, parts)))
---
results.conwalk
---
"torch" in sys.modules and "transformers" in sys.modules
"""

# In a process of its own, whose sockets end with it.
RUN = """\
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.write(nbclient.execute(notebook, timeout=200), sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_notebook_shows_reports_that_work_without_a_network(tmp_path: Path) -> None:
    save(figure_dataset(), tmp_path / "results")
    code = CELLS.format(folder=str(tmp_path / "results"), attention="[[[1.0, 0.0], [0.5, 0.5]]]")
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in code.split("---")]
    )
    path = tmp_path / "notebook.ipynb"
    nbformat.write(notebook, path)
    subprocess.run([sys.executable, "-c", RUN, path], check=True)
    notebook = nbformat.read(path, as_version=4)
    shown = [output for cell in notebook.cells for output in cell.outputs]
    html = [o["data"]["text/html"] for o in shown if "text/html" in o.get("data", {})]
    assert len(html) == 3
    assert "2 receive, 2 send" in html[1]
    assert "4 layers, 2 prompts" in html[2]
    assert "require" not in json.dumps([Balanced(h).text for h in html])
    complaints: list[str] = []
    (tmp_path / "page.html").write_text(
        f'<!doctype html><meta charset="utf-8">{"".join(html)}', encoding="utf-8"
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(playwright), args=list(FLAGS))
        page = browser.new_context(offline=True).new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: r.url.startswith("http") and complaints.append(r.url))
        page.goto((tmp_path / "page.html").as_uri())
        report = page.frame_locator("iframe")
        report.locator("html[data-ready=yes]").wait_for(timeout=60_000)
        assert report.locator(".figure[data-drawn=yes]").count() > 3
        report.get_by_role("link", name="Definitions", exact=True).click()
        assert report.locator("#definitions").is_visible()
        assert PROMPTS[1] in report.locator("body").inner_text()
        browser.close()
    assert complaints == []
