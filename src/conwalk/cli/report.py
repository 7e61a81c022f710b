"""``conwalk report``: results as a page to look at."""

from pathlib import Path
from typing import Annotated

import typer

from conwalk.cli import console

_MOST = 15.0
Results = Annotated[
    Path, typer.Argument(metavar="RESULTS", help="A folder that analyze or demo wrote.")
]
Page = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="The page; report.html beside the results."),
]
Megabytes = Annotated[
    float,
    typer.Option(min=4, metavar="MB", help="How large maps of single layers may make the page."),
]


def report(results: Results, out: Page = None, megabytes: Megabytes = _MOST) -> None:
    """Write results as one HTML file that opens from disk and loads nothing."""
    from conwalk import report as pages
    from conwalk.results import read

    dataset = read(results)
    written = pages.write(dataset, place(results) if out is None else out, megabytes=megabytes)
    console.echo(f"report: {written}")


def place(results: Path) -> Path:
    """Where a report lies unless it was said: beside ``results.zarr``."""
    folder = results.parent if results.name.endswith(".zarr") else results
    return folder / "report.html"
