"""The main job: every layer of every prompt, proven and measured, in one labelled dataset."""

from collections.abc import Callable, Iterable, Sequence

import xarray as xr

from conwalk import dims, tolerance
from conwalk.capture import RowBlocks, Watch, watch
from conwalk.errors import CaptureError
from conwalk.metrics import Metric
from conwalk.models import inference
from conwalk.models.sites import AttentionSite, Refusal
from conwalk.pipeline.chance import ChancePanel
from conwalk.pipeline.collect import Collector
from conwalk.pipeline.depth import DepthPanel
from conwalk.pipeline.details import DetailsPanel
from conwalk.pipeline.exclusion import EXCLUDED, INCLUDED, Exclusion, check_special
from conwalk.pipeline.judge import verdicts
from conwalk.pipeline.layers import LayerPanel
from conwalk.pipeline.naming import Naming
from conwalk.pipeline.provenance import layer_coordinates, provenance
from conwalk.pipeline.run import RESIDUAL, RESIDUAL_ATTRS, Run
from conwalk.pipeline.selection import existing_heads
from conwalk.pipeline.selection import panel as default_panel
from conwalk.pipeline.source import Batches, Given, Prompts, model_of
from conwalk.pipeline.weights import WeightPanel
from conwalk.results import assemble

BLOCK_ABOVE = 512
"""Passes with more queries than this are handled in blocks of query rows."""
BLOCK_ROWS = 128
Progress = Callable[[int, int], None]


def _silent(_done: int, _total: int) -> None:
    return None


@inference.settled()
def analyze(
    model: Given,
    prompts: Prompts,
    *,
    names: Sequence[str] | None = None,
    layers: Iterable[int] | None = None,
    heads: Sequence[int] | None = None,
    max_length: int | None = None,
    batch_size: int = 1,
    exclude_special: bool = False,
    panel: Sequence[Metric] | None = None,
    whole: bool = False,
    details: bool = False,
    null_draws: int = 0,
    seed: int = 0,
    command: str | None = None,
    progress: Progress = _silent,
) -> xr.Dataset:
    """Measure what attention does in a model, layer by layer, on some texts.

    Every layer of every prompt is rebuilt as a connection walk first; one that does not match
    the model's own output within the dtype's tolerance is listed as refused and not measured.

    Args:
        model: a loaded model, a live module, or anything :func:`conwalk.load` takes.
        prompts: texts, token id sequences, or ready inputs.
        names: of the prompts; their index by default.
        layers: layer numbers; all by default.
        heads: head numbers; all by default.
        max_length: cut texts to this many tokens.
        batch_size: prompts in one padded pass.
        exclude_special: measure attention between the tokens of the text alone: special tokens are
            left out as queries and as keys, and every row is rescaled to the sum it had. Layers
            are proven before, with all tokens. ``special_share`` says how much was left out.
        panel: the metrics; those of ``conwalk.metrics.ALL`` that are on by default.
        whole: keep whole attention matrices of long texts too, for metrics that need them.
        details: also keep what a report draws of every layer, for the first 8 prompts: walk matrix,
            norm and effective rank of every edge, singular values, eigenvalues, a map of the
            tokens, and the distances of all pairs of layers.
        null_draws: draws of the null of every metric that has one to be drawn; those with a closed
            form stand beside their metric anyway.
        seed: of everything random.
        command: what to record as the command that made the result.
        progress: called with how many layers of how many are done.

    Returns:
        A dataset with dims ``prompt, layer, head``; what was refused is in its attributes
        (:func:`conwalk.results.refused`).

    Raises:
        InputError: the model, the texts, the layers or the heads cannot be used.
        CaptureError: the model's pass cannot be watched.
    """
    model = model_of(model)
    batches = Batches(model, prompts, names=names, max_length=max_length, batch_size=batch_size)
    watched = watch(model.module, batches.example)
    sites = watched.layers(layers)
    if not sites:
        raise _nothing(watched.refused)
    panel = default_panel(None) if panel is None else panel
    chosen = existing_heads(heads, min(s.n_heads for s in sites))
    if exclude_special:
        check_special(model, batches.prompts)
    naming = Naming(batches, watched, exclude_special=exclude_special)
    run = Run(
        sites=sites,
        layers=LayerPanel(panel, chosen),
        weights=WeightPanel(panel, model, seed, chosen),
        depth=DepthPanel(panel, [s.stack for s in sites]),
        chance=ChancePanel(panel, null_draws, seed),
        collector=_collector(naming, len(batches.prompts), sites, chosen),
        names=[p.name for p in batches.prompts],
        limit=tolerance.reconstruction(model.dtype),
        tick=_ticker(progress, len(sites) * len(batches.prompts)),
    )
    if details:
        stacks = [s.stack for s in sites]
        run.details = DetailsPanel(stacks, len(batches.prompts), naming.longest, seed)
    if exclude_special:
        run.exclusion = Exclusion(naming, chosen)
        run.exclusion.declare(run.collector)
    run.collector.declare(RESIDUAL, (dims.PROMPT, dims.LAYER), RESIDUAL_ATTRS)
    for part in (run.layers, run.weights, run.depth, run.chance):
        part.declare(run.collector)
    run.weights.find_gains(sites, watched.probe)
    _pass_over(batches, watched, run, None if whole else BLOCK_ABOVE)
    run.finish(panel)
    return assemble(
        {**run.collector.variables, **(run.details.variables() if run.details else {})},
        layers={
            **layer_coordinates(sites, run.score_maps),
            "verdict": verdicts(run.collector.variables, len(sites), model.dtype),
            **naming.layer_coordinates(sites),
        },
        heads=chosen,
        prompts=run.names,
        tokens=naming.tables(),
        texts=[p.text for p in batches.prompts],
        refused=[*_passed_over(batches, watched), *run.refused],
        provenance={
            **provenance(model, seed=seed, command=command),
            "special_tokens": EXCLUDED if exclude_special else INCLUDED,
            "input_notes": batches.notes,
            "layers_without_attention": list(watched.without),
        },
    )


def _pass_over(batches: Batches, watched: Watch, run: Run, above: int | None) -> None:
    blocks = None
    if above is not None:
        blocks = RowBlocks(BLOCK_ROWS, above, run.take_rows, run.take_output)
    for inputs, prompts in batches:
        run.first = prompts.start
        watched.stream(
            inputs, run.take, run.sites, scores=run.layers.wants_scores, blocks=blocks, logits=False
        )
        run.finish_batch(prompts)


def _passed_over(batches: Batches, watched: Watch) -> list[dict[str, str]]:
    texts = [{"name": f"text {s.name}", "reason": s.reason} for s in batches.skipped]
    return [*texts, *({"name": r.name, "reason": r.reason} for r in watched.refused)]


def _nothing(refused: Sequence[Refusal]) -> CaptureError:
    first = refused[0]
    return CaptureError(
        f"none of the {len(refused)} attention layers found can be read as a walk; "
        f"{first.name}: {first.reason}"
    )


def _collector(
    naming: Naming, n_prompts: int, sites: Sequence[AttentionSite], heads: Sequence[int] | None
) -> Collector:
    n_heads = max(s.n_heads for s in sites) if heads is None else len(heads)
    sizes = {
        dims.HEAD: n_heads,
        dims.TOKEN: naming.longest,
        dims.LAYER_TO: len(sites),
    }
    return Collector(n_prompts, len(sites), sizes)


def _ticker(progress: Progress, total: int) -> Callable[[], None]:
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    return tick
