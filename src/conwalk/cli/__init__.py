"""The command line: one short function for each command."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from conwalk.cli.analyze import analyze
from conwalk.cli.catalog import metrics, models
from conwalk.cli.compare import compare
from conwalk.cli.console import say
from conwalk.cli.demo import demo
from conwalk.cli.figure import figure
from conwalk.cli.report import report
from conwalk.cli.table import table
from conwalk.cli.transports import transports
from conwalk.cli.verify import verify
from conwalk.errors import CaptureError, ConwalkError

app = typer.Typer(
    help="The attention of any trained transformer as what it is: a connection walk.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (demo, analyze, verify, transports, report, compare, figure, table, metrics, models):
    app.command()(command)


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"conwalk {version('conwalk')}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """The attention of any trained transformer as what it is: a connection walk."""


def main() -> None:
    """Run the command line; an error of ours is one line on stderr.

    Exit code 2 for input that cannot be used, 1 for a model that cannot be watched or rebuilt.
    """
    try:
        app()
    except ConwalkError as error:
        say(f"conwalk: {error}")
        sys.exit(1 if isinstance(error, CaptureError) else 2)
    except KeyboardInterrupt:
        say("conwalk: interrupted")
        sys.exit(130)
