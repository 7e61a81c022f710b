"""``conwalk report``: where the page goes, and what is refused in one line."""

import sys
from pathlib import Path

import pytest

import conwalk.cli
from conwalk.results import save
from report_cases import report_dataset


def run(monkeypatch: pytest.MonkeyPatch, *args: object) -> int:
    monkeypatch.setattr(sys, "argv", ["conwalk", "report", *map(str, args)])
    try:
        conwalk.cli.main()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    return 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(report_dataset(), tmp_path / "results").parent


@pytest.mark.parametrize("given", ["", "results.zarr"])
def test_the_page_lies_beside_the_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, given: str
) -> None:
    assert run(monkeypatch, folder / given) == 0
    assert capsys.readouterr().out == f"report: {folder / 'report.html'}\n"
    assert "tiny as a connection walk" in (folder / "report.html").read_text(encoding="utf-8")


def test_the_page_goes_where_it_was_told(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    place = tmp_path / "elsewhere" / "page.html"
    assert run(monkeypatch, folder, "--out", place, "--megabytes", 5) == 0
    assert place.is_file()
    assert not (folder / "report.html").exists()


def test_what_holds_no_results_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(monkeypatch, tmp_path) == 2
    said = capsys.readouterr().err
    assert "holds no conwalk results" in said
    assert "Traceback" not in said
