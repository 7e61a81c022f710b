"""Find and prove the attention of a model once, then watch any number of passes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from conwalk import tolerance
from conwalk.capture.layer import CapturedLayer
from conwalk.capture.row_blocks import RowBlocks
from conwalk.capture.stream import stream
from conwalk.capture.tap import Callback
from conwalk.errors import CaptureError, ConwalkError, SelectionError, ShapeError
from conwalk.models import inference, probe
from conwalk.models.layout import Layout, discover
from conwalk.models.sites import AttentionSite, Refusal
from conwalk.models.unattended import layers_without_attention, ranges
from conwalk.theorems import reconstruction


@dataclass(frozen=True, eq=False)
class Watch:
    """A model whose attention has been found, and proven by rebuilding it.

    Attributes:
        module: the model.
        probe: inputs of the tiny pass in which they were found.
        sites: every place whose layer was rebuilt to the dtype's tolerance.
        refused: every place that was found but cannot be read as a walk, with the reason.
        without: layers in which nothing attends while others of their run do, by path and numbers.
    """

    module: nn.Module
    probe: dict[str, Any]
    sites: tuple[AttentionSite, ...]
    refused: tuple[Refusal, ...]
    without: tuple[str, ...] = ()

    def layers(self, wanted: Iterable[int] | None) -> tuple[AttentionSite, ...]:
        """The sites of the given layer numbers, in every stack; all of them for None.

        Raises:
            SelectionError: naming a layer that the model does not have.
            CaptureError: naming a layer that was refused, with the reason.
        """
        if wanted is None:
            return self.sites
        chosen = set(wanted)
        missing = sorted(chosen - {s.layer for s in self.sites})
        unread = [r for r in self.refused if not self.sites or r.name.startswith(_names(missing))]
        if missing and unread:
            raise CaptureError(f"{unread[0].name} cannot be read as a walk: {unread[0].reason}")
        if missing:
            raise SelectionError(
                f"layer {missing[0]} does not exist: this model has attention in layers "
                f"{ranges(sorted({s.layer for s in self.sites}))}"
            )
        return tuple(s for s in self.sites if s.layer in chosen)

    def stream(
        self,
        inputs: dict[str, Any],
        callback: Callback,
        sites: Sequence[AttentionSite] | None = None,
        *,
        scores: bool = False,
        blocks: RowBlocks | None = None,
        logits: bool = True,
    ) -> Any:
        """One pass over ``inputs``; see :func:`conwalk.capture.stream`."""
        sites = self.sites if sites is None else sites
        return stream(
            self.module, inputs, sites, callback, scores=scores, blocks=blocks, logits=logits
        )


def watch(module: nn.Module, example: dict[str, Any] | None = None) -> Watch:
    """Find every place at which a model attends and prove each by rebuilding its output.

    Args:
        module: any model; it is left as it was found.
        example: inputs it is going to be given, for models that read more than token ids.

    Returns:
        The proven sites and the refused places.

    Raises:
        CaptureError: there is no softmax attention in the model, or its pass cannot be run.
    """
    inputs, layout = _found(module, example)
    if not layout.sites and not layout.refused:
        raise CaptureError(
            f"no softmax attention was found in {type(module).__name__}: conwalk needs a model "
            "that multiplies softmax weights with values"
        )
    proof = _Proof(module, inputs)
    if layout.sites:
        proof.rebuild(layout.sites)
    limit = reconstruction.bound(inference.dtype_of(module))
    judged = [proof.judged(s, limit) for s in layout.sites]
    proven = tuple(j for j in judged if isinstance(j, AttentionSite))
    failed = tuple(
        replace(j, reason=layout.pieces.get(s.path, j.reason))
        for s, j in zip(layout.sites, judged, strict=True)
        if isinstance(j, Refusal)
    )
    refused = (*layout.refused, *failed)
    attend = [place.path for place in (*proven, *refused)]
    return Watch(module, inputs, proven, refused, layers_without_attention(module, attend))


def _found(module: nn.Module, example: dict[str, Any] | None) -> tuple[dict[str, Any], Layout]:
    """The layout, from the shortest inputs on which the model runs and stays what it is."""
    problem: Exception | None = None
    for inputs in probe.candidates(module, example):
        try:
            layout = discover(module, inputs, probe.lengths(inputs))
        except ConwalkError:
            raise
        except Exception as raised:  # noqa: BLE001 - whatever a model raises on too short a text
            problem = problem or raised
        else:
            return _as_used(module, example, inputs, layout)
    said = str(problem).partition("\n")[0]
    more = "" if example else "; pass one example of its inputs, so that its attention can be found"
    raise CaptureError(
        f"{type(module).__name__} does not run on a short input: {said}{more}"
    ) from problem


def _as_used(
    module: nn.Module, example: dict[str, Any] | None, inputs: dict[str, Any], layout: Layout
) -> tuple[dict[str, Any], Layout]:
    """The layout of a model that is another for short texts, from the text it is going to read."""
    if not layout.rebuilt or not example:
        return inputs, layout
    whole = probe.first_prompt(example)
    return whole, discover(module, whole, probe.lengths(whole))


class _Proof:
    """Rebuilds sites in the pass in which they were found."""

    def __init__(self, module: nn.Module, inputs: dict[str, Any]) -> None:
        self._module = module
        self._inputs = inputs
        self._residuals: dict[int, float] = {}
        self._leaks: set[int] = set()
        self._signed: set[int] = set()
        self._problems: dict[int, str] = {}

    def rebuild(self, sites: Sequence[AttentionSite]) -> None:
        """All in one pass; one by one if one of them does not even fit together."""
        try:
            stream(self._module, self._inputs, sites, self._compare)
        except (CaptureError, ShapeError) as problem:
            if len(sites) == 1:
                self._problems[sites[0].index] = str(problem).removeprefix(f"{sites[0].name}: ")
                return
            for site in sites:
                self.rebuild([site])

    def _compare(self, layer: CapturedLayer) -> None:
        index = layer.site.index
        rebuilt = layer.walk(layer.value_input)
        self._residuals[index] = reconstruction.residual(rebuilt, layer.output)
        if layer.leak > tolerance.row_sum(layer.attention.dtype):
            self._leaks.add(index)
        if bool((layer.attention < 0).any()):
            self._signed.add(index)

    def judged(self, site: AttentionSite, limit: float) -> AttentionSite | Refusal:
        """The site as it was rebuilt, with what its rows showed, or why it is refused."""
        found = self._residuals.get(site.index, math.inf)
        if not found <= limit and not site.output.gated and site.index in self._residuals:
            again = replace(site, rescaled_rows=True)
            self.rebuild([again])
            if self._residuals[site.index] <= limit:
                return self._as_seen(again)
        problem = self._problems.get(site.index)
        if problem is not None:
            return Refusal(site.name, problem, site.path)
        if not found <= limit:
            return Refusal(site.name, reconstruction.shortfall(found, limit), site.path)
        return self._as_seen(site)

    def _as_seen(self, site: AttentionSite) -> AttentionSite:
        signed = site.index in self._signed
        return replace(site, signed=signed, leaks=site.index in self._leaks and not signed)


def _names(layers: Sequence[int]) -> tuple[str, ...]:
    """How the names of sites in these layers begin, where there is one stack."""
    return tuple(f"layer {n} " for n in layers)
