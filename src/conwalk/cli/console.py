"""Where things are printed: results on stdout, everything else on stderr."""

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

Tick = Callable[[int, int], None]


def out() -> Console:
    """The console for results."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=True)


def say(message: str, *, quiet: bool = False) -> None:
    """One line on stderr."""
    if not quiet:
        Console(stderr=True, highlight=False, soft_wrap=True).print(message, markup=False)


def echo(text: str) -> None:
    """One line on stdout, as it is."""
    out().print(text, markup=False)


@contextmanager
def progress(what: str, *, quiet: bool) -> Generator[Tick]:
    """A progress bar on stderr where that is a terminal and nobody asked for quiet."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _done, _total: None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def tell(text: str) -> None:
    """Sentences on stdout, broken at words to the width of the terminal, or to 80 columns."""
    lines().print(text, markup=False, no_wrap=False, overflow="fold")


def lines() -> Console:
    """The console for what is broken into lines; 80 columns wide unless a terminal is wider."""
    return Console(file=sys.stdout, highlight=False)


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """A table that fits 80 columns and stays a table when it is piped.

    Numbers are never broken or cut; words are, at the width.
    """
    cells = [tuple(row) for row in rows]
    grid = Table(collapse_padding=True, box=None, pad_edge=False)
    for i, name in enumerate(columns):
        words = not all(_is_number(row[i]) for row in cells)
        whole = i == 0 or not words
        grid.add_column(name, justify="left" if i == 0 else "right", no_wrap=whole, overflow="fold")
    for row in cells:
        grid.add_row(*row)
    tell(title)
    lines().print(grid)


def _is_number(cell: str) -> bool:
    return cell in ("", "–") or cell[0] in "+-.0123456789"
