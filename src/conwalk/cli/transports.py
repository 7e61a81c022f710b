"""``conwalk transports``: the head maps of a model of any size, from its files."""

import json
import shlex
import sys
from typing import TYPE_CHECKING

from conwalk.cli import console, options
from conwalk.cli.analyze import folder_for, table

if TYPE_CHECKING:
    import xarray as xr

COLUMNS = {
    "rho": ("ρ", "{:.3f}"),
    "rho_null_mean": ("chance", "{:.3f}"),
    "rho_z": ("z", "{:+.0f}"),
    "rho_folded": ("folded", "{:.3f}"),
    "rho_folded_z": ("z", "{:+.0f}"),
    "stable_rank": ("rank", "{:.1f}"),
    "stable_rank_null_mean": ("chance", "{:.1f}"),
    "antisymmetric_share": ("turn", "{:.2f}"),
    "layer_composition": ("reads", "{:.3f}"),
    "composition_chance": ("chance", "{:.3f}"),
}
LEGEND = """\
ρ: isometry score of a head's transport, 1 = isometry, and its z; folded: the
same with the norm gain multiplied in; rank: stable rank; turn: antisymmetric
share of the nearest isometry, 0 = reflection, 1/2 by chance; reads: share of
what a head writes that the heads of its own layer read. Medians over heads;
`conwalk metrics` defines each one. Weights alone: no text was read, and no
layer was proven (conwalk verify)."""


def transports(
    source: options.Source,
    layers: options.Layers = None,
    heads: options.Heads = None,
    dtype: options.DtypeName = "float32",
    seed: options.Seed = 0,
    out: options.Out = None,
    offline: options.Offline = False,
    trust_remote_code: options.RemoteCode = False,
    output: options.OutputFormat = options.Format.table,
    dry_run: options.DryRun = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure the head maps of a model of any size from its files, without running it.

    One layer at a time from safetensors or GGUF; a run that was cut short goes on where it stopped.
    """
    from conwalk import pipeline, results
    from conwalk.models.shards import open_weights
    from conwalk.pipeline import forecast, weights_alone
    from conwalk.pipeline.selection import numbers

    chosen_layers = None if layers is None else numbers(layers, "--layers")
    chosen_heads = None if heads is None else numbers(heads, "--heads")
    folder = folder_for(source, out)
    if not dry_run:
        results.prepare(folder)
    console.say(f"opening {source}", quiet=quiet)
    opened = open_weights(
        source,
        dtype=dtype,
        offline=True if offline or dry_run else None,
        trust_remote_code=trust_remote_code,
    )
    for note in opened.model.notes:
        console.say(f"note: {note}", quiet=quiet)
    if dry_run:
        told = forecast.weights_alone(opened, weights_alone.chosen_layers(opened, chosen_layers))
        console.echo(f"transports {source}: {len(opened.sites)} layers; would write {folder}")
        console.echo(str(told))
        return
    with console.progress("layers", quiet=quiet) as tick:
        found = pipeline.analyze_weights(
            opened,
            layers=chosen_layers,
            heads=chosen_heads,
            seed=seed,
            command=shlex.join(["conwalk", *sys.argv[1:]]),
            progress=tick,
        )
    written = results.save(found, folder)
    if output is options.Format.json:
        console.echo(json.dumps(results.layer_records(found), indent=2))
    else:
        _show(source, found)
        console.echo(f"results: {written}")


def _show(source: str, found: "xr.Dataset") -> None:
    from conwalk import results

    rows = results.layer_records(found)
    table(f"{source}: {len(rows)} layers, weights alone, {found.attrs['dtype']}", rows, COLUMNS)
    console.echo(LEGEND)
    for entry in results.refused(found):
        console.echo(f"refused: {entry['name']}: {entry['reason']}")
