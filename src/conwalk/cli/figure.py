"""``conwalk figure``: one figure of some results, as a paper needs it."""

from pathlib import Path
from typing import Annotated

import typer

from conwalk.cli import console
from conwalk.errors import SelectionError

Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Which figure; --list names them.")
]
Results = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="RESULTS...",
        help="Folders that analyze wrote; several share the panels of depth, else each has one.",
    ),
]
File = Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to: .pdf, .svg or .png.")]
Metric = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="What to draw; several, comma-separated, side by side."),
]
Layer = Annotated[str | None, typer.Option(metavar="N", help="The layer; by default the middle.")]
Head = Annotated[int | None, typer.Option(metavar="N", help="The head; by default all.")]
Prompt = Annotated[
    str | None, typer.Option(metavar="NAME", help="The prompt, or its place; by default the first.")
]
Width = Annotated[
    float | None, typer.Option(min=1.0, max=40.0, metavar="INCHES", help="Width; height follows.")
]
Listing = Annotated[bool, typer.Option("--list", help="Name the figures and what they take.")]


def figure(
    name: Name = None,
    results: Results = None,
    out: File = Path("figure.svg"),
    metric: Metric = None,
    layer: Layer = None,
    head: Head = None,
    prompt: Prompt = None,
    width: Width = None,
    listing: Listing = False,
) -> None:
    """Draw one figure of results; the same results give the same file."""
    from conwalk import plot
    from conwalk.results import read

    if listing or name is None:
        _list()
        return
    plot.figure_named(name)
    plot.check_file(out)
    if not results:
        raise SelectionError(f"figure {name} needs RESULTS: give a folder that analyze wrote")
    drawn = plot.compose(
        name,
        [read(path) for path in results],
        metrics=[part.strip() for part in (metric or "").split(",") if part.strip()],
        width=width,
        layer=layer,
        head=head,
        prompt=prompt,
    )
    console.echo(f"open {plot.write(drawn, out)}")


def _list() -> None:
    from conwalk import plot

    for known in plot.FIGURES.values():
        takes = " ".join(f"--{choice}" for choice in known.choices)
        console.echo(f"{known.name:<16} {known.meaning}")
        if takes:
            console.echo(f"{'':<16} {takes}")
