"""``figure``, ``table``, ``compare`` as their user meets them: files, one-line errors, exit 2."""

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import conwalk.cli
from conwalk.cli.table import markdown
from conwalk.results import save, tidy
from figure_cases import TOKENS, figure_dataset

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["conwalk", *map(str, args)])
        code = 0
        try:
            conwalk.cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        seen = capsys.readouterr()
        return code, seen.out, seen.err

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    save(figure_dataset(), place)
    return place


def test_the_list_names_every_figure_and_what_it_takes(run: Run) -> None:
    from conwalk.plot import FIGURES

    code, out, _ = run("figure", "--list")
    assert code == 0
    for figure in FIGURES.values():
        assert f"{figure.name:<16} {figure.meaning}" in out
        assert all(f"--{choice}" in out for choice in figure.choices)
    assert all(len(line) <= 80 for line in out.splitlines())


def test_a_figure_is_written_and_named(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "walk.svg"
    code, said, _ = run("figure", "walk", folder, "--layer", 2, "--prompt", 1, "--out", out)
    assert (code, said) == (0, f"open {out}\n")
    text = out.read_text(encoding="utf-8")
    assert "layer 2, prompt &lt;script&gt;" in text
    assert "<script" not in text


def test_several_metrics_stand_side_by_side(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "depth.svg"
    assert run("figure", "depth", folder, "--metric", "rho, edge_rank", "--out", out)[0] == 0
    text = out.read_text(encoding="utf-8")
    assert "r_eff" in text
    assert "isometry score" in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("figure", "nope", "{results}"), "there is no figure 'nope'"),
        (("figure", "walk"), "figure walk needs RESULTS"),
        (("figure", "walk", "{results}", "--out", "a.gif"), "a.gif is no kind of figure"),
        (("figure", "walk", "{results}", "--head", "1"), "figure walk has no --head"),
        (("figure", "depth", "{results}", "--metric", "kappa"), "hold no 'kappa'"),
        (("figure", "depth", "nowhere"), "nowhere holds no conwalk results"),
        (("table", "{results}", "--metrics", "rhoo"), "did you mean rho"),
        (("table", "{results}", "--format", "parquet"), "give --out FILE.parquet"),
        (("table", "{results}", "--by", "head", "--metrics", "edge_rank"), "choose another --by"),
        (("compare", "{results}"), "1 results cannot be compared"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    run: Run, folder: Path, args: tuple[str, ...], message: str
) -> None:
    code, out, err = run(*(a.format(results=folder) for a in args))
    assert (code, out) == (2, "")
    assert err.startswith("conwalk: ")
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("by", ["layer", "head", "token", "edge"])
def test_csv_and_parquet_hold_every_number_in_full(
    run: Run, folder: Path, tmp_path: Path, by: str
) -> None:
    expected = tidy(figure_dataset(), by)
    for kind in ("csv", "parquet"):
        out = tmp_path / f"t.{kind}"
        assert run("table", folder, "--by", by, "--format", kind, "--out", out)[0] == 0
        found = pd.read_parquet(out) if kind == "parquet" else read_csv(out)
        assert sorted(found) == sorted(expected)
        for name in expected:
            wanted = expected[name]
            if wanted.dtype.kind == "f":
                pd.testing.assert_series_equal(
                    found[name].astype(wanted.dtype), wanted, check_exact=True
                )
            else:
                assert list(map(str, found[name])) == list(map(str, wanted))


def read_csv(path: Path) -> pd.DataFrame:
    """Texts as they stand: a token may be ``nan`` or a line break."""
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    table = pd.DataFrame(rows, columns=head)
    return table.replace("", float("nan")) if "text" not in head else table


def test_markdown_shows_what_can_be_read(run: Run, folder: Path) -> None:
    code, out, err = run("table", folder, "--by", "edge")
    lines = out.splitlines()
    assert code == 0
    assert len(lines) == 2 + 40
    assert "the 40 heaviest of 204 rows" in err
    weights = [float(line.split(" | ")[6]) for line in lines[2:]]
    assert weights == sorted(weights, reverse=True)
    edges = tidy(figure_dataset(), "edge")
    assert weights[0] == pytest.approx(edges["weight"].max(), rel=1e-3)


def test_a_bar_or_a_line_break_in_a_token_breaks_no_table() -> None:
    text = markdown(pd.DataFrame({"t": TOKENS[0], "x": [0.5, float("nan"), *[1.0] * 6]}))
    assert len(text.splitlines()) == 2 + 8
    assert "| \\| | 1 |" in text
    assert "| ↵ | 1 |" in text
    assert "|  old | – |" in text


def test_compare_writes_a_page_and_tells_checkpoints_apart(run: Run, tmp_path: Path) -> None:
    for step in ("step-1", "step-2"):
        save(figure_dataset(), tmp_path / step)
    out = tmp_path / "c.html"
    code, said, _ = run("compare", tmp_path / "step-1", tmp_path / "step-2", "--out", out)
    assert (code, said) == (0, f"open {out}\n")
    assert "step-1 beside step-2" in out.read_text(encoding="utf-8")
