"""``conwalk models --families`` prints the table, in 80 columns, without waiting for torch."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from conwalk.cli import app
from conwalk.families import OUTCOMES, Family, Table, as_lines, as_markdown, load
from conwalk.families.table import as_json


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["models", "--families", *arguments])
    assert result.exit_code == 0
    return result.stdout


def test_every_family_is_printed_under_its_outcome_in_80_columns() -> None:
    lines = printed().splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    for outcome, count in load().counts.items():
        assert f"{outcome} ({count})" in text
    assert all(family.name in text for family in load().families)


def test_the_last_line_counts_the_outcomes() -> None:
    last = printed().splitlines()[-1]
    assert last == ", ".join(f"{count} {outcome}" for outcome, count in load().counts.items())


def test_as_json_it_is_the_data_file() -> None:
    held = json.loads(printed("--format", "json"))
    assert held["transformers"] == load().transformers
    assert len(held["families"]) == len(load().families)


def test_neither_torch_nor_transformers_is_imported() -> None:
    code = (
        "import sys; from conwalk.cli import app\n"
        "try: app(['models', '--families'])\n"
        "except SystemExit: pass\n"
        "print({'torch', 'transformers'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "set()"
    assert "llama" in done.stdout


FAMILY = Family(
    name="one",
    built="OneModel",
    inputs=("input_ids",),
    outcome="exact",
    kinds=("cross", "leak"),
    sets={"encoder": "0-1", "cross": "0"},
    without="2",
    windows={"0": 4},
    reasons=("because",),
)


def test_everything_about_a_family_is_on_the_page_and_in_the_terminal() -> None:
    table = Table("5.0", (FAMILY, Family("two", reasons=("it needs a package",))))
    notes = "encoder 0-1; cross 0; no attention in layers 2; windows 0: 4; because"
    assert FAMILY.notes == notes
    page = as_markdown(table)
    assert f"| `one` | OneModel | text | cross, leak | {notes} |" in page
    assert "| `two` | it needs a package |" in page
    lines = " ".join(" ".join(as_lines(table)).split())
    assert f"one (cross, leak): {notes}" in lines
    assert "two: it needs a package" in lines


@pytest.mark.parametrize(
    ("inputs", "modality"),
    [
        (("input_ids", "decoder_input_ids"), "text"),
        (("pixel_values", "image_grid_thw"), "image"),
        (("input_values",), "audio"),
        (("input_ids", "pixel_values"), "several"),
        (("past_values",), "other"),
    ],
)
def test_what_a_family_reads_follows_from_its_inputs(
    inputs: tuple[str, ...], modality: str
) -> None:
    assert replace(FAMILY, inputs=inputs).modality == modality


def test_every_outcome_has_a_meaning_and_no_other_is_in_the_table() -> None:
    assert {f.outcome for f in load().families} <= set(OUTCOMES)


def test_the_data_file_keeps_what_a_table_holds() -> None:
    rows = json.loads(as_json(Table("5.0", (FAMILY,))))["families"]
    assert rows[0]["sets"] == {"encoder": "0-1", "cross": "0"}
    assert rows[0]["windows"] == {"0": 4}
