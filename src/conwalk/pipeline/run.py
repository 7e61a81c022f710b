"""An analysis under way: each layer proven as it comes, measured, and let go of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from conwalk.capture import CapturedLayer, CapturedOutput, CapturedRows
from conwalk.metrics import Metric
from conwalk.models.sites import AttentionSite
from conwalk.pipeline.chance import ChancePanel
from conwalk.pipeline.collect import Collector
from conwalk.pipeline.depth import DepthPanel
from conwalk.pipeline.details import DetailsPanel
from conwalk.pipeline.exclusion import Exclusion
from conwalk.pipeline.layers import WHOLE, LayerPanel, Place
from conwalk.pipeline.weights import WeightPanel
from conwalk.theorems import reconstruction

RESIDUAL = "residual"
RESIDUAL_ATTRS = {
    "symbol": "max_i ‖Ŷ_i − Y_i‖ / rms_i ‖Y_i‖",
    "unit": "1",
    "range": (0.0, None),
    "long_name": "worst token's distance of the rebuilt layer output from the model's own",
    "section": "Theory §1",
    "over_prompts": "worst",
}
_LONG = (
    "the text is long, so attention was handled in blocks of rows, and these need whole matrices; "
    "ask for them with --whole (whole=True)"
)


@dataclass
class Run:
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
