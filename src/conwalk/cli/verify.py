"""``conwalk verify``: is every layer exactly a connection walk?"""

import json
from typing import TYPE_CHECKING

import typer

from conwalk.cli import console, options
from conwalk.cli.forecasting import forecast
from conwalk.cli.loading import load_quietly, prompts_of, say_notes

if TYPE_CHECKING:
    from conwalk.pipeline import Verification

_TOKENS = 128


def verify(
    source: options.Source,
    text: options.TextFiles = None,
    prompt: options.PromptTexts = None,
    image: options.ImageFiles = None,
    audio: options.AudioFiles = None,
    layers: options.Layers = None,
    max_length: options.MaxLength = None,
    batch_size: options.BatchSize = 1,
    device: options.DeviceName = "cpu",
    dtype: options.DtypeName = "float32",
    max_memory: options.MaxMemory = None,
    offload: options.Offload = None,
    offline: options.Offline = False,
    trust_remote_code: options.RemoteCode = False,
    output: options.OutputFormat = options.Format.table,
    dry_run: options.DryRun = False,
    quiet: options.Quiet = False,
) -> None:
    """Rebuild every attention layer as a connection walk and compare with the model's output.

    Exit code 0 if every layer is exact, 1 if one is not, 2 for input that cannot be used.
    """
    from conwalk import pipeline
    from conwalk.pipeline.selection import numbers

    names, texts, length = prompts_of(
        text, prompt, max_length, default_length=_TOKENS, images=image, audio=audio
    )
    chosen = None if layers is None else numbers(layers, "--layers")
    if dry_run:
        forecast("verify", source, texts, length, dtype=dtype, remote=trust_remote_code)
        return
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
    found = pipeline.verify(
        model, texts, names=names, layers=chosen, max_length=length, batch_size=batch_size
    )
    say_notes(found.notes, quiet=quiet)
    if output is options.Format.json:
        console.echo(json.dumps(_as_json(source, found), indent=2))
    else:
        _print(source, found)
    raise typer.Exit(0 if found.exact else 1)


def _print(source: str, found: "Verification") -> None:
    layers = found.layers
    console.table(
        f"{source}: {len(layers)} attention layers, {str(found.dtype).removeprefix('torch.')}, "
        f"{sum(found.n_tokens)} tokens",
        ("layer", "kind", "heads", "output", "each head", "one walk", "row sums", "verdict"),
        (
            (
                proof.name,
                proof.kind,
                proof.heads,
                f"{proof.residual:.1e}",
                f"{proof.head_residual:.1e}",
                f"{proof.one_walk_residual:.1e}",
                f"{proof.row_sum_defect:.1e}",
                proof.verdict,
            )
            for proof in layers
        ),
    )
    if found.windows:
        console.tell(found.windows)
    for line in found.without:
        console.tell(f"without softmax attention, passed over: {line}")
    for name, reason in found.refusals:
        console.tell(f"refused: {name}: {reason}")
    console.tell(found.summary)


def _as_json(source: str, found: "Verification") -> dict[str, object]:
    return {"model": source, **found.as_dict()}
