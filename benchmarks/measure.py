"""Times and memory, measured as ratios inside one process."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from conwalk.metrics import ALL, Metric
from conwalk.models import Model, inference
from conwalk.pipeline import analyze

_STATUS = Path("/proc/self/status")
_REFS = Path("/proc/self/clear_refs")
_MIB = 1024


@dataclass(frozen=True)
class Cost:
    """What an analysis of one text costs beside a plain eager forward pass of the same text.

    Attributes:
        n: tokens.
        eager: median seconds of the plain pass.
        analysis: median seconds of the analysis, all that is done for each text.
        once: seconds that the first text took more: layout, weights, nulls.
        eager_peak: MiB above the loaded model at the peak of the plain pass; None if not known.
        analysis_peak: the same for the analysis.
        shares: seconds spent in each metric for one text.
    """

    n: int
    eager: float
    analysis: float
    once: float
    eager_peak: float | None
    analysis_peak: float | None
    shares: dict[str, float]

    @property
    def ratio(self) -> float:
        """Analysis over plain pass."""
        return self.analysis / self.eager


def default_panel() -> list[Metric]:
    """The metrics that run unasked."""
    return [m for m in ALL if m.default]


def seconds(work: Callable[[], Any], repeats: int) -> list[float]:
    """How long each of several calls took."""
    found: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return found


def plain(model: Model, ids: Sequence[int]) -> Callable[[], Any]:
    """A plain eager forward pass, logits of every token and all."""
    inputs = {"input_ids": torch.tensor([list(ids)])}

    def run() -> None:
        with inference.eager(model.module):
            inference.forward(model.module, inputs)

    return run


def per_text(
    model: Model, ids: Sequence[int], panel: Sequence[Metric], repeats: int
) -> list[float]:
    """Seconds an analysis takes for each of several equal texts; the first includes all set-up."""
    ends: list[float] = []
    start = time.perf_counter()

    def note(done: int, total: int) -> None:
        if done % (total // (repeats + 1)) == 0:
            ends.append(time.perf_counter())

    analyze(model, [list(ids)] * (repeats + 1), panel=panel, progress=note)
    return [b - a for a, b in zip([start, *ends], ends, strict=False)]


def cost(model: Model, ids: Sequence[int], panel: Sequence[Metric], repeats: int) -> Cost:
    """Measure one length; the plain passes before and after the analysis count alike."""
    run = plain(model, ids)
    seconds(run, 1)
    before = seconds(run, repeats)
    first, *others = per_text(model, ids, panel, repeats)
    eager = statistics.median([*before, *seconds(run, repeats)])
    analysis = statistics.median(others)
    return Cost(
        n=len(ids),
        eager=eager,
        analysis=analysis,
        once=first - analysis,
        eager_peak=peak(model, run),
        analysis_peak=peak(model, lambda: analyze(model, [list(ids)], panel=panel)),
        shares=shares(model, ids, panel, repeats),
    )


def shares(
    model: Model, ids: Sequence[int], panel: Sequence[Metric], repeats: int
) -> dict[str, float]:
    """Seconds that each metric that looks at texts takes for one of them."""
    spent = dict.fromkeys((m.name for m in panel if not m.of_weights), 0.0)

    def timed(metric: Metric, part: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(given: Any) -> Any:
            start = time.perf_counter()
            try:
                return part(given)
            finally:
                spent[metric.name] += time.perf_counter() - start

        return call

    watched = [
        m if m.of_weights else replace(m, compute=timed(m, m.compute), finish=timed(m, m.finish))
        for m in panel
    ]
    analyze(model, [list(ids)] * repeats, panel=watched)
    return {name: total / repeats for name, total in spent.items()}


def peak(model: Model, work: Callable[[], Any]) -> float | None:
    """MiB of resident memory at the peak of some work, above the loaded model.

    All weights are touched first: a kernel may have taken pages of theirs that lay idle.
    """
    if not _REFS.exists():
        return None
    with torch.no_grad():
        for weight in model.module.parameters():
            weight.sum()
    _REFS.write_text("5", encoding="ascii")
    before = _resident("VmRSS")
    work()
    return _resident("VmHWM") - before


def _resident(entry: str) -> float:
    lines = _STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / _MIB for line in lines if line.startswith(entry))
