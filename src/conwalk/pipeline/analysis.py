"""The main job: every layer of every prompt, proven and measured, in one labelled dataset."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import xarray as xr
from torch import nn

from conwalk import dims, metrics, tolerance
from conwalk.capture import CapturedLayer, watch
from conwalk.errors import CaptureError
from conwalk.metrics import LayerData, Metric
from conwalk.models import Model
from conwalk.models.sites import AttentionSite, Refusal
from conwalk.pipeline.collect import Collector
from conwalk.pipeline.provenance import provenance
from conwalk.pipeline.selection import existing_heads
from conwalk.pipeline.source import Batches, Prompts, model_of
from conwalk.pipeline.weights import WeightPanel
from conwalk.results import assemble
from conwalk.theorems import reconstruction_residual

RESIDUAL = "residual"
_RESIDUAL_ATTRS = {
    "symbol": "max_i ‖Ŷ_i − Y_i‖ / rms_i ‖Y_i‖",
    "unit": "1",
    "range": (0.0, None),
    "long_name": "worst token's distance of the rebuilt layer output from the model's own",
    "section": "Theory §1",
    "over_prompts": "worst",
}

Progress = Callable[[int, int], None]


def _silent(_done: int, _total: int) -> None:
    return None


@dataclass
class _Run:
    """One analysis under way: what is measured, and where the numbers go."""

    sites: tuple[AttentionSite, ...]
    rows: tuple[Metric, ...]
    weights: WeightPanel
    heads: list[int] | None
    collector: Collector
    names: list[str]
    limit: float
    tick: Callable[[], None]
    refused: list[dict[str, str]] = field(default_factory=list)
    weighed: set[int] = field(default_factory=set)

    def take(self, layer: CapturedLayer, first: int) -> None:
        """Prove one captured layer, and measure it if it is what we say it is."""
        prompt, place = first + layer.prompt, self.sites.index(layer.site)
        residual = reconstruction_residual(layer.walk(layer.value_input), layer.output)
        self.collector.put(RESIDUAL, (prompt, place), residual)
        if residual <= self.limit:
            self._weigh(layer, place)
            self._measure(layer, prompt, place)
        else:
            name = f"prompt {self.names[prompt]}, {layer.site.name}"
            reason = f"rebuilt with residual {residual:.1e}, above {self.limit:.0e}"
            self.refused.append({"name": name, "reason": reason})
        self.tick()

    def _weigh(self, layer: CapturedLayer, place: int) -> None:
        if place in self.weighed:
            return
        self.weighed.add(place)
        transports = layer.transports
        chosen = transports if self.heads is None else transports.select(self.heads)
        self.weights.measure(chosen, place, self.collector)

    def _measure(self, layer: CapturedLayer, prompt: int, place: int) -> None:
        walk = layer.walk if self.heads is None else layer.walk.heads[self.heads]
        data = LayerData(walk, layer.value_input, layer.output)
        for metric in self.rows:
            for name, value in metric.finish(metric.compute(data)).items():
                self.collector.put(name, (prompt, place), value)


def analyze(
    model: Model | nn.Module | str,
    prompts: Prompts,
    *,
    names: Sequence[str] | None = None,
    layers: Iterable[int] | None = None,
    heads: Sequence[int] | None = None,
    max_length: int | None = None,
    batch_size: int = 1,
    panel: Sequence[Metric] | None = None,
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
        panel: the metrics; those of ``conwalk.metrics.ALL`` that are on by default.
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
    panel = [m for m in metrics.ALL if m.default] if panel is None else panel
    run = _Run(
        sites=sites,
        rows=tuple(m for m in panel if m.needs == "rows"),
        weights=WeightPanel(panel, seed),
        heads=existing_heads(heads, min(s.n_heads for s in sites)),
        collector=_collector(batches, sites, heads),
        names=[p.name for p in batches.prompts],
        limit=tolerance.reconstruction(model.dtype),
        tick=_ticker(progress, len(sites) * len(batches.prompts)),
    )
    _declare(run, panel)
    for inputs, first in batches:
        watched.stream(inputs, lambda layer, first=first: run.take(layer, first), sites)
    run.weights.finish(run.collector)
    refused = [
        *({"name": f"text {s.name}", "reason": s.reason} for s in batches.skipped),
        *({"name": r.name, "reason": r.reason} for r in watched.refused),
        *run.refused,
    ]
    return assemble(
        run.collector.variables,
        layers=_layer_coordinates(sites),
        heads=run.heads,
        prompts=run.names,
        tokens=[p.pieces for p in batches.prompts],
        refused=refused,
        provenance=provenance(model, seed=seed, command=command),
    )


def _nothing(refused: Sequence[Refusal]) -> CaptureError:
    first = refused[0]
    return CaptureError(
        f"none of the {len(refused)} attention layers found can be read as a walk; "
        f"{first.name}: {first.reason}"
    )


def _collector(
    batches: Batches, sites: Sequence[AttentionSite], heads: Sequence[int] | None
) -> Collector:
    n_heads = max(s.n_heads for s in sites) if heads is None else len(set(heads))
    return Collector(len(batches.prompts), len(sites), {dims.HEAD: n_heads})


def _declare(run: _Run, panel: Sequence[Metric]) -> None:
    run.collector.declare(RESIDUAL, (dims.PROMPT, dims.LAYER), _RESIDUAL_ATTRS)
    for metric in panel:
        if metric.needs == "rows":
            run.collector.declare_metric(metric)
    run.weights.declare(run.collector)


def _ticker(progress: Progress, total: int) -> Callable[[], None]:
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    return tick


def _layer_coordinates(sites: Sequence[AttentionSite]) -> dict[str, list[Any]]:
    """Layer numbers where there is one stack; ``stack.number`` where there are several."""
    single = len({s.stack for s in sites}) == 1
    return {
        dims.LAYER: [s.layer if single else f"{s.stack}.{s.layer}" for s in sites],
        "stack": [s.stack for s in sites],
        "path": [s.path for s in sites],
        "kind": [s.kind for s in sites],
    }
