"""The main job: every layer of every prompt, proven and measured, in one labelled dataset."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import xarray as xr

from conwalk import dims, tolerance
from conwalk.capture import CapturedLayer, CapturedOutput, CapturedRows, RowBlocks, Watch, watch
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
from conwalk.pipeline.layers import WHOLE, LayerPanel, Place
from conwalk.pipeline.naming import Naming
from conwalk.pipeline.provenance import layer_coordinates, provenance
from conwalk.pipeline.selection import existing_heads
from conwalk.pipeline.selection import panel as default_panel
from conwalk.pipeline.source import Batches, Given, Prompts, model_of
from conwalk.pipeline.weights import WeightPanel
from conwalk.results import assemble
from conwalk.theorems import reconstruction

RESIDUAL = "residual"
_RESIDUAL_ATTRS = {
    "symbol": "max_i ‖Ŷ_i − Y_i‖ / rms_i ‖Y_i‖",
    "unit": "1",
    "range": (0.0, None),
    "long_name": "worst token's distance of the rebuilt layer output from the model's own",
    "section": "Theory §1",
    "over_prompts": "worst",
}
BLOCK_ABOVE = 512
"""Passes with more queries than this are handled in blocks of query rows."""
BLOCK_ROWS = 128
_LONG = (
    "the text is long, so attention was handled in blocks of rows, and these need whole matrices; "
    "ask for them with --whole (whole=True)"
)

Progress = Callable[[int, int], None]


def _silent(_done: int, _total: int) -> None:
    return None


@dataclass
class _Run:
    """One analysis under way: what is measured, and where the numbers go."""

    sites: tuple[AttentionSite, ...]
    layers: LayerPanel
    weights: WeightPanel
    depth: DepthPanel
    chance: ChancePanel
    collector: Collector
    names: list[str]
    limit: float
    tick: Callable[[], None]
    details: DetailsPanel | None = None
    exclusion: Exclusion | None = None
    first: int = 0
    refused: list[dict[str, str]] = field(default_factory=list)
    weighed: set[int] = field(default_factory=set)
    in_rows: set[int] = field(default_factory=set)
    score_maps: dict[int, tuple[float | None, float | None]] = field(default_factory=dict)

    def take(self, layer: CapturedLayer) -> None:
        """Prove one captured layer, and measure it if it is what we say it is."""
        place = self._place(layer.site, layer.prompt)
        residual = reconstruction.residual(layer.walk(layer.value_input), layer.output)
        if not self._proven(layer.site, place, residual):
            return
        kept = self.exclusion.layer(layer, place) if self.exclusion else layer
        if self._left_out(layer.site, place) or kept is None:
            return
        data = self.layers.measure(kept, place, self.collector)
        self.score_maps[place[1]] = (layer.scaling, layer.softcap)
        self.chance.measure(data, place, self.collector)
        self.depth.take(data, *place)
        if self.details:
            self.details.measure(data.walk, place)
        if self.layers.wants_scores and layer.scores is None:
            self._refuse(
                f"scores of {layer.site.name}",
                "its scores before the mask cannot be told from its mask",
            )

    def take_rows(self, rows: CapturedRows) -> None:
        """Take a block of rows of a layer that is too long to be there as a whole."""
        place = self._place(rows.site, rows.prompt)
        measured = self.exclusion.rows(rows, place) if self.exclusion else rows
        data = self.layers.take_rows(rows, place, measured)
        if self.details and data:
            self.details.take_rows(data.walk, place)

    def take_output(self, output: CapturedOutput) -> None:
        """Prove a layer that came in rows; its numbers count only now."""
        place = self._place(output.site, output.prompt)
        left_out = self._left_out(output.site, place)
        residual = self.layers.close(
            output, place, self.collector, self.limit, measure=not left_out
        )
        proven = self._proven(output.site, place, residual)
        if self.details:
            self.details.close(place, proven=proven and not left_out)
        self.in_rows.add(place[0])

    def _left_out(self, site: AttentionSite, place: Place) -> bool:
        """Whether nothing is left of a layer without special tokens; how much went to them."""
        lack = self.exclusion.close(place, self.collector) if self.exclusion else None
        if lack is not None:
            self._refuse(f"prompt {self.names[place[0]]}, {site.name} without special tokens", lack)
        return lack is not None

    def _place(self, site: AttentionSite, prompt: int) -> Place:
        return self.first + prompt, self.sites.index(site)

    def _proven(self, site: AttentionSite, place: Place, residual: float) -> bool:
        self.collector.put(RESIDUAL, place, residual)
        self.tick()
        if not residual <= self.limit:
            reason = reconstruction.shortfall(residual, self.limit)
            self._refuse(f"prompt {self.names[place[0]]}, {site.name}", reason)
            return False
        if place[1] not in self.weighed:
            self.weighed.add(place[1])
            self.weights.measure(site, place[1], self.collector)
            if self.details:
                self.details.weigh(self.weights.chosen(site), place[1])
        return True

    def _refuse(self, name: str, reason: str) -> None:
        entry = {"name": name, "reason": reason}
        if entry not in self.refused:
            self.refused.append(entry)

    def finish_batch(self, prompts: range) -> None:
        """Compare the layers of prompts that are done."""
        for prompt in prompts:
            self.depth.finish_prompt(prompt, self.collector)
            if self.details:
                self.details.finish_prompt(prompt)

    def finish(self, panel: Sequence[Metric]) -> None:
        """Compare prompts; turn all z into q; say what long prompts were not asked."""
        self.weights.finish(self.collector)
        self.chance.finish(self.collector)
        self.depth.finish(self.collector)
        left_out = ", ".join(m.name for m in panel if m.needs in WHOLE)
        nulls = ", ".join(m.name for m in self.chance.metrics if m.needs not in WHOLE)
        for prompt in sorted(self.in_rows):
            if left_out:
                self._refuse(f"prompt {self.names[prompt]}, metrics {left_out}", _LONG)
            if nulls:
                self._refuse(f"prompt {self.names[prompt]}, drawn nulls of {nulls}", _LONG)


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
    run = _Run(
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
    run.collector.declare(RESIDUAL, (dims.PROMPT, dims.LAYER), _RESIDUAL_ATTRS)
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


def _pass_over(batches: Batches, watched: Watch, run: _Run, above: int | None) -> None:
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
