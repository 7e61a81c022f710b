"""``conwalk analyze``: the main job."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conwalk.cli import console, options, written
from conwalk.cli.forecasting import forecast
from conwalk.cli.loading import load_quietly, prompts_of, say_notes

if TYPE_CHECKING:
    import xarray as xr

TOKENS = 128
_RESULTS = Path("conwalk-results")
_SHARE = "special_share"

COLUMNS = {
    "residual": ("resid", "{:.0e}"),
    "first_token_attention": ("first", "{:.2f}"),
    "sink_fraction": ("sinks", "{:.0%}"),
    "entropy_share": ("entropy", "{:.2f}"),
    "curl_share": ("κ", "{:.2f}"),
    "curl_share_chance": ("chance", "{:.2f}"),
    "rho": ("ρ", "{:.3f}"),
    "rho_null_mean": ("chance", "{:.3f}"),
    "rho_z": ("z", "{:+.0f}"),
    "edge_rank": ("r_eff", "{:.1f}"),
    "edge_rank_chance": ("chance", "{:.0f}"),
    "depth_tv": ("TV", "{:.2f}"),
}
LEGEND = """\
resid: residual of the rebuilt layer; first: attention to token 0; sinks: heads
with first > 0.3; entropy: share of even attention; κ: share of the scores that
no reversible walk has; ρ: isometry score, 1 = isometry, and its z; r_eff:
effective rank of an edge; TV: distance of the walk from the next layer's.
Medians over heads, means over prompts; `conwalk metrics` defines each one."""


def folder_for(source: str, out: Path | None) -> Path:
    """Where results go: ``--out``, or a folder named after the model."""
    name = "-".join(part for part in source.replace(":", "/").split("/") if part not in ("", "."))
    return out if out is not None else _RESULTS / name


def analyze(
    source: options.Source,
    text: options.TextFiles = None,
    prompt: options.PromptTexts = None,
    image: options.ImageFiles = None,
    audio: options.AudioFiles = None,
    layers: options.Layers = None,
    heads: options.Heads = None,
    max_length: options.MaxLength = None,
    metrics: options.Metrics = None,
    nulls: options.Nulls = 0,
    whole: options.Whole = False,
    fresh: options.Fresh = False,
    batch_size: options.BatchSize = 1,
    exclude_special: options.ExcludeSpecial = False,
    device: options.DeviceName = "cpu",
    dtype: options.DtypeName = "float32",
    max_memory: options.MaxMemory = None,
    offload: options.Offload = None,
    seed: options.Seed = 0,
    out: options.Out = None,
    report: options.Report = True,
    offline: options.Offline = False,
    trust_remote_code: options.RemoteCode = False,
    output: options.OutputFormat = options.Format.table,
    dry_run: options.DryRun = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure every attention layer on some texts: a table, a dataset, and a report to open."""
    from conwalk import pipeline, results
    from conwalk.pipeline.selection import numbers, panel

    names, texts, length = prompts_of(
        text, prompt, max_length, default_length=TOKENS, images=image, audio=audio
    )
    chosen_layers = None if layers is None else numbers(layers, "--layers")
    chosen_heads = None if heads is None else numbers(heads, "--heads")
    chosen_metrics = panel(written.METRICS if report and metrics is None else metrics)
    folder = folder_for(source, out)
    if dry_run:
        cut = "whole" if length is None else f"cut to {length} tokens"
        console.echo(f"would analyze {source} in {dtype} on {device}: {len(texts)} texts, {cut}")
        console.echo(f"would write {folder}")
        forecast("analyze", source, texts, length, dtype=dtype, remote=trust_remote_code)
        return
    results.prepare(folder)
    model = load_quietly(
        source,
        device=device,
        dtype=dtype,
        offline=offline,
        remote=trust_remote_code,
        quiet=quiet,
        max_memory=max_memory,
        offload=offload,
    )
    with console.progress("layers", quiet=quiet) as tick:
        job = pipeline.analyze_beside_fresh if fresh else pipeline.analyze
        found = job(
            model,
            texts,
            names=names,
            layers=chosen_layers,
            heads=chosen_heads,
            max_length=length,
            batch_size=batch_size,
            exclude_special=exclude_special,
            panel=chosen_metrics,
            null_draws=nulls,
            whole=whole,
            details=report,
            seed=seed,
            command=shlex.join(["conwalk", *sys.argv[1:]]),
            progress=tick,
        )
    say_notes(json.loads(found.attrs["input_notes"]), quiet=quiet)
    lines = written.write(found, folder, report=report)
    if output is options.Format.json:
        console.echo(json.dumps(results.layer_records(found), indent=2))
        for line in lines:
            console.say(line, quiet=quiet)
    else:
        show(source, found)
        for line in lines:
            console.echo(line)


def _number(style: str, value: float | None) -> str:
    """A number of a table; a dash where there is none."""
    return "–" if value is None else style.format(value)


def table(
    title: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, tuple[str, str]]
) -> None:
    """One line a layer: of each column its heading and how its numbers are written."""
    console.table(
        title,
        ("layer", *(heading for heading, _ in columns.values())),
        (
            (
                str(row["layer"]),
                *(_number(style, row[name]) for name, (_, style) in columns.items()),
            )
            for row in rows
        ),
    )


def show(source: str, found: "xr.Dataset") -> None:
    """The per-layer table, what was refused, and how to read it."""
    from conwalk import results

    rows = results.layer_records(found)
    prompts, tokens = found.sizes["prompt"], int(found["n_tokens"].sum())
    table(
        f"{source}: {len(rows)} layers, {prompts} prompts, {tokens} tokens",
        rows,
        {name: c for name, c in COLUMNS.items() if name in found},
    )
    console.echo(LEGEND)
    for line in results.grouped([str(row["layer"]) for row in rows], list(found["verdict"].values)):
        console.tell(line)
    if _SHARE in found:
        share = float(found[_SHARE].mean())
        console.echo(
            f"special tokens {found.attrs['special_tokens']}: {share:.0%} of attention was theirs"
        )
    for line in json.loads(found.attrs.get("layers_without_attention", "[]")):
        console.tell(f"without softmax attention, passed over: {line}")
    for entry in results.refused(found):
        console.tell(f"refused: {entry['name']}: {entry['reason']}")
