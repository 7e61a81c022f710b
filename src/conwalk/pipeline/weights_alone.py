"""What the weights of a model say by themselves: every layer's head maps, from their files."""

import os
from collections.abc import Callable, Iterable, Sequence

import xarray as xr

from conwalk import dims
from conwalk.capture import Watch
from conwalk.errors import ShapeError, SourceError
from conwalk.metrics import ALL
from conwalk.models.shards import WeightsOnly, open_weights
from conwalk.models.sites import AttentionSite
from conwalk.pipeline.collect import Collector
from conwalk.pipeline.judge import verdicts
from conwalk.pipeline.provenance import layer_coordinates, provenance
from conwalk.pipeline.selection import existing_heads
from conwalk.pipeline.weights import WeightPanel
from conwalk.results import assemble

PANEL = tuple(m for m in ALL if m.of_weights)
"""The metrics that need no forward pass."""

Progress = Callable[[int, int], None]


def _silent(_done: int, _total: int) -> None:
    return None


def analyze_weights(
    source: WeightsOnly | str | os.PathLike[str],
    *,
    layers: Iterable[int] | None = None,
    heads: Sequence[int] | None = None,
    seed: int = 0,
    command: str | None = None,
    progress: Progress = _silent,
) -> xr.Dataset:
    """Measure the head maps of a model of any size, one layer at a time, without running it.

    Only value and output projections, and the gains of norms, are read from the files. The numbers
    are those that :func:`conwalk.analyze` gives for the same weights. The layout is read from
    labels and not proven by rebuilding a layer, which takes the weights. A layer that is done is
    kept in the cache, so that a run that was cut short goes on where it stopped.

    Args:
        source: an opened model, or a Hub id, folder, ``.gguf`` file or ``"pkg:package/path"``.
        layers: layer numbers; all by default.
        heads: head numbers; all by default.
        seed: of the nulls' draws.
        command: what to record as the command that made the result.
        progress: called with how many layers of how many are done.

    Returns:
        A dataset with dims ``layer, head``, and no prompts; what was refused is in its attributes
        (:func:`conwalk.results.refused`).

    Raises:
        InputError: the model, the layers or the heads cannot be used.
    """
    opened = source if isinstance(source, WeightsOnly) else open_weights(source)
    sites = chosen_layers(opened, layers)
    chosen = existing_heads(heads, min(s.n_heads for s in sites))
    n_heads = max(s.n_heads for s in sites) if chosen is None else len(chosen)
    collector = Collector(0, len(sites), {dims.HEAD: n_heads})
    panel = WeightPanel(PANEL, opened.model, seed, chosen)
    panel.declare(collector)
    panel.take_gains(opened.sites, opened.gains)
    for place, site in enumerate(sites):
        _measure(panel, site, place, collector, opened.model.source)
        progress(place + 1, len(sites))
    panel.finish(collector)
    return assemble(
        collector.variables,
        layers={
            **layer_coordinates(sites, {}),
            "verdict": verdicts(collector.variables, len(sites), opened.dtype),
        },
        heads=chosen,
        prompts=[],
        tokens=[],
        refused=[{"name": r.name, "reason": r.reason} for r in opened.refused],
        provenance={
            **provenance(opened.model, seed=seed, command=command),
            "dtype": str(opened.dtype).removeprefix("torch."),
            "device": "cpu",
        },
    )


def chosen_layers(opened: WeightsOnly, layers: Iterable[int] | None) -> tuple[AttentionSite, ...]:
    """The sites of the given layer numbers; all of them for None.

    Raises:
        SelectionError: naming a layer that the model does not have.
    """
    return Watch(opened.model.module, {}, opened.sites, opened.refused).layers(layers)


def _measure(
    panel: WeightPanel, site: AttentionSite, place: int, collector: Collector, source: str
) -> None:
    try:
        panel.measure(site, place, collector)
    except ShapeError as error:
        raise SourceError(f"{source}: {site.name}: {error}") from error
