"""``conwalk compare``: several results on one page."""

from pathlib import Path
from typing import Annotated

import typer

from conwalk.cli import console

Results = Annotated[
    list[Path],
    typer.Argument(
        metavar="RESULTS...",
        help="Folders that analyze wrote, two to five; one that holds --fresh is compared with it.",
    ),
]
Page = Annotated[Path, typer.Option("--out", metavar="FILE", help="The page.")]


def compare(results: Results, out: Page = Path("compare.html")) -> None:
    """Set models, checkpoints, or trained and fresh weights side by side, by relative depth."""
    from conwalk import report
    from conwalk.results import model_name, read

    datasets = [read(path) for path in results]
    names = [model_name(dataset) for dataset in datasets]
    if len(set(names)) < len(names):
        # checkpoints of one model are told apart by where their results lie
        names = [path.parent.name if path.name.endswith(".zarr") else path.name for path in results]
    console.echo(f"open {report.write_comparison(datasets, out, names)}")
