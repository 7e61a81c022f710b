"""What is printed fits 80 columns, on a terminal and in a pipe, and ends with what to open."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from conwalk.cli import console
from conwalk.cli.analyze import show
from conwalk.cli.verify import _print
from figure_cases import figure_dataset
from tiny_models import make_tiny
from tiny_sources import save_folder

WIDE = "灯台守は古い階段をゆっくりと登り窓の向こうの海を眺めていた。" * 3


@pytest.fixture(params=["pipe", "terminal"])
def eighty(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    if request.param == "terminal":
        monkeypatch.setenv("FORCE_COLOR", "1")


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in capsys.readouterr().out.splitlines()]


def widest(lines: list[str]) -> int:
    return max(cell_len(line.rstrip()) for line in lines)


@pytest.mark.usefixtures("eighty")
def test_words_are_broken_and_numbers_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = ["1.2e-07", "0.031", "−", "+7"]
    rows = [
        (str(layer), "normed value, leaking rows, and more than fits " + WIDE, *numbers, "exact")
        for layer in range(2)
    ]
    console.table("title " + WIDE, ("layer", "kind", "a", "b", "c", "d", "verdict"), rows)
    lines = printed(capsys)
    assert widest(lines) <= 80
    assert sum("1.2e-07" in line and "0.031" in line for line in lines) == 2
    whole = "".join(lines).replace(" ", "")
    assert whole.count("海を眺めていた。") >= 3


@pytest.mark.usefixtures("eighty")
def test_the_summary_of_an_analysis_fits(capsys: pytest.CaptureFixture[str]) -> None:
    found = figure_dataset().assign_attrs(refused=f'[{{"name": "{WIDE}", "reason": "{WIDE}"}}]')
    show("pkg:" + "a" * 60, found)
    lines = printed(capsys)
    assert widest(lines) <= 80
    assert f"refused:{WIDE}:{WIDE}" in "".join(lines).replace(" ", "")


@pytest.mark.usefixtures("eighty")
def test_the_summary_of_a_proof_fits(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    from conwalk.models.sites import Refusal
    from conwalk.pipeline import Verification

    _print("m" * 90, Verification(torch.float32, 5e-6, refused=(Refusal(WIDE, "reason " * 30),)))
    assert widest(printed(capsys)) <= 80


def test_a_wide_terminal_is_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    console.tell("word " * 30)
    assert len(printed(capsys)) == 1


@pytest.mark.slow
def test_the_last_line_says_what_to_open(tmp_path: Path) -> None:
    model = save_folder(tmp_path / "model", make_tiny("llama"))
    run = [sys.executable, "-m", "conwalk", "analyze", str(model), "--prompt", f"one two {WIDE}"]
    done = subprocess.run(
        [*run, "--out", str(tmp_path / "out")], capture_output=True, text=True, check=True
    )
    last = done.stdout.splitlines()[-1]
    assert last.endswith(f"open {tmp_path / 'out' / 'report.html'}")
    assert Path(last.split("open ")[-1]).exists()
