"""``conwalk table``: the numbers of results, one row a layer, head, token or edge."""

import math
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conwalk.cli import console
from conwalk.errors import OutputError

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 40
_COLUMNS = 16


class By(StrEnum):
    """What a row is."""

    layer = "layer"
    head = "head"
    token = "token"
    edge = "edge"


class Kind(StrEnum):
    """How a table is written."""

    md = "md"
    csv = "csv"
    parquet = "parquet"


_USUAL = {
    By.layer: ("first_token_attention", "curl_share", "rho", "edge_rank", "depth_tv"),
    By.head: ("first_token_attention", "entropy_share", "curl_share", "rho"),
}
"""What is shown of a layer or a head where nothing was asked for."""

Results = Annotated[Path, typer.Argument(metavar="RESULTS", help="A folder that analyze wrote.")]
Rows = Annotated[By, typer.Option("--by", help="What a row is.")]
Format = Annotated[
    Kind,
    typer.Option(
        "--format",
        help="csv and parquet hold all rows in full precision; md is cut to what can be read.",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Columns, comma-separated; their nulls come along."),
]
File = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Where to, instead of the screen.")
]


def table(
    results: Results,
    by: Rows = By.layer,
    kind: Format = Kind.md,
    metrics: Metrics = None,
    out: File = None,
) -> None:
    """Write the numbers of results as a table."""
    from conwalk.results import read, tidy

    names = [part.strip() for part in (metrics or "").split(",") if part.strip()]
    found = read(results)
    if not names and kind is Kind.md:
        names = [name for name in _USUAL.get(by, ()) if name in found]
    frame = tidy(found, by.value, names or None)
    if kind is Kind.parquet:
        _parquet(frame, out)
    elif kind is Kind.csv:
        # the shortest digits that read back as the same number
        _text(frame.to_csv(index=False, lineterminator="\n"), out)
    else:
        shown = _readable(frame, by)
        _text(markdown(shown), out)
        if len(shown) < len(frame):
            which = "heaviest" if by is By.edge else "first"
            console.say(f"note: the {len(shown)} {which} of {len(frame)} rows; csv holds all")
        if shown.shape[1] < frame.shape[1]:
            left = ", ".join(frame.columns[shown.shape[1] :][:3])
            console.say(f"note: columns left out: {left}, …; choose some with --metrics")
    if out is not None:
        console.echo(f"open {out}")


def _readable(frame: "pd.DataFrame", by: By) -> "pd.DataFrame":
    """As much of a table as a page holds: the heaviest edges, else the first rows."""
    if by is By.edge and "weight" in frame:
        return frame.nlargest(_ROWS, "weight")
    most = len(frame) if by is By.layer else _ROWS
    return frame.iloc[:most, :_COLUMNS]


def markdown(frame: "pd.DataFrame") -> str:
    """Write a table in Markdown; numbers in four digits, a dash where there is none."""
    head = [str(name) for name in frame.columns]
    words = [frame[name].dtype.kind not in "iuf" for name in frame.columns]
    rows = [[_cell(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    rule = [":---" if word else "---:" for word in words]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.4g}"
    # a bar would end the cell, a line break the table
    return str(value).replace("\\", "\\\\").replace("|", "\\|").replace("\n", "↵")


def _text(content: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(content)
        return
    try:
        out.write_text(content, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {out}: {error.strerror or error}") from error


def _parquet(frame: "pd.DataFrame", out: Path | None) -> None:
    if out is None:
        raise OutputError("parquet is no text for a screen: give --out FILE.parquet")
    try:
        frame.to_parquet(out, index=False)
    except OSError as error:
        raise OutputError(f"cannot write {out}: {error.strerror or error}") from error
