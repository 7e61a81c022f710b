"""Is every layer exactly the walk we say it is? Rebuild it three ways and compare."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from conwalk import tolerance
from conwalk.capture import CapturedLayer, Watch, watch
from conwalk.markup import card, grid
from conwalk.models import inference
from conwalk.models.linear import dtype_of
from conwalk.models.sites import AttentionSite, Refusal
from conwalk.pipeline.naming import Naming
from conwalk.pipeline.source import Batches, Given, Prompts, model_of
from conwalk.theorems import one_walk, reconstruction_residual

COLUMNS = ("layer", "kind", "heads", "output", "each head", "one walk", "row sums", "verdict")
"""What a row of proofs says."""


@dataclass
class LayerProof:
    """How exactly one layer was rebuilt; residuals are the worst over prompts.

    Attributes:
        site: the layer.
        residual: of Y rebuilt as a walk, relative to Y.
        head_residual: of the worst head alone against the module with the other heads zeroed.
        one_walk_residual: of ``Σ_j P_ij (x_j T_ij + t_ij)`` against the sum of the heads.
        row_sum_defect: largest distance of a row's sum from 1.
        leak: largest share of a row that goes to no token.
        least_weight: smallest attention weight.
        reach: tokens from a query to the farthest key with weight, both counted; 0 for cross
            attention, whose positions have no distance.
        limit: the largest residual that counts as exact in this dtype.
    """

    site: AttentionSite
    limit: float
    residual: float = 0.0
    head_residual: float = 0.0
    one_walk_residual: float = 0.0
    row_sum_defect: float = 0.0
    leak: float = 0.0
    least_weight: float = 1.0
    reach: int = 0

    @property
    def name(self) -> str:
        """The layer's number, with its stack where the model has several."""
        site = self.site
        return str(site.layer) if site.stack == "self" else f"{site.stack}.{site.layer}"

    @property
    def heads(self) -> str:
        """Query heads, and value heads where they are fewer."""
        site = self.site
        shared = "" if site.n_kv_heads == site.n_heads else f"/{site.n_kv_heads}"
        return f"{site.n_heads}{shared}"

    @property
    def exact(self) -> bool:
        """Whether all three residuals are within the limit."""
        worst = (self.residual, self.head_residual, self.one_walk_residual)
        return all(r <= self.limit for r in worst)

    @property
    def kind(self) -> str:
        """The kind of walk, as far as its layout and its weights show (Theory §7)."""
        if self.least_weight < 0:
            return "signed"
        leaking = self.leak > tolerance.row_sum(dtype_of(self.site.output.linear))
        named = self.site.kind == "leak" or not leaking
        return self.site.kind if named else f"{self.site.kind}, leaking rows"

    @property
    def verdict(self) -> str:
        """``exact``, with a reservation where the maps depend on the input, or ``NOT REBUILT``."""
        if not self.exact:
            return "NOT REBUILT"
        return "exact at this input" if self.site.depends_on_input else "exact"

    @property
    def cells(self) -> tuple[str, ...]:
        """The proof as a row of the table that ``verify`` prints."""
        found = (
            self.residual,
            self.head_residual,
            self.one_walk_residual,
            self.row_sum_defect,
        )
        return (self.name, self.kind, self.heads, *(f"{r:.1e}" for r in found), self.verdict)

    def _repr_html_(self) -> str:
        """Describe it to a notebook."""
        return card(f"layer {self.name}", dict(zip(COLUMNS[1:], self.cells[1:], strict=True)))

    def as_dict(self) -> dict[str, Any]:
        """Everything, in the types of JSON."""
        site = self.site
        return {
            "layer": site.layer,
            "stack": site.stack,
            "call": site.call,
            "path": site.path,
            "kind": self.kind,
            "heads": site.n_heads,
            "kv_heads": site.n_kv_heads,
            "value_width": site.value_width,
            "width": site.width_out,
            "residual": self.residual,
            "head_residual": self.head_residual,
            "one_walk_residual": self.one_walk_residual,
            "row_sum_defect": self.row_sum_defect,
            "leak": self.leak,
            "least_weight": self.least_weight,
            "window": site.reach,
            "reach": self.reach,
            "verdict": self.verdict,
        }


@dataclass
class Verification:
    """What :func:`verify` found.

    Attributes:
        layers: one proof for each layer that was watched.
        refused: places that attend but cannot be read as a walk.
        notes: what was done to inputs that their user may not expect.
        skipped: texts that could not be used, by name, with the reason.
        without: layers in which nothing attends while others of their run do.
        same_output: whether the watched model's output was bit for bit the unwatched one's.
        dtype: the dtype the model ran in.
        limit: the largest residual that counts as exact in it.
        n_tokens: tokens of each prompt.
    """

    dtype: torch.dtype
    limit: float
    layers: list[LayerProof] = field(default_factory=list)
    refused: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: dict[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    same_output: bool = True
    n_tokens: tuple[int, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether nothing was refused, every layer is exact, and watching changed nothing."""
        return self.same_output and not self.refused and all(p.exact for p in self.layers)

    @property
    def refusals(self) -> list[tuple[str, str]]:
        """Name and reason of every text and every place that was passed over."""
        texts = [(f"text {name}", reason) for name, reason in self.skipped.items()]
        return [*texts, *((r.name, r.reason) for r in self.refused)]

    @property
    def windows(self) -> str:
        """How far back or ahead the layers see, where some see less far than others; else ""."""
        far = max((proof.reach for proof in self.layers), default=0)
        near = [proof for proof in self.layers if 0 < proof.reach < far]
        named = [proof for proof in self.layers if proof.site.reach is not None]
        if not near and not named:
            return ""
        by_reach: dict[int, list[str]] = {}
        for proof in near or named:
            by_reach.setdefault(proof.reach, []).append(proof.name)
        parts = [f"{reach} tokens in {', '.join(names)}" for reach, names in by_reach.items()]
        rest = f"; {far} in all others" if near else ""
        return f"farthest token seen, itself counted: {'; '.join(parts)}{rest}"

    @property
    def summary(self) -> str:
        """One sentence with its numbers."""
        exact = sum(p.exact for p in self.layers)
        worst = max((p.residual for p in self.layers), default=0.0)
        same = "bit for bit that" if self.same_output else "NOT that"
        return (
            f"{exact} of {len(self.layers) + len(self.refused)} layers exact: worst residual "
            f"{worst:.1e}, limit {self.limit:.0e}; the watched model's output is {same} of the "
            f"unwatched one{self._reservation}"
        )

    @property
    def _reservation(self) -> str:
        """What a proof in half precision leaves open."""
        eps = torch.finfo(self.dtype).eps
        if eps <= torch.finfo(torch.float32).eps:
            return ""
        name = str(self.dtype).removeprefix("torch.")
        return f"; {name} rounds at {eps:.0e}, so float32 proves more (--dtype float32)"

    def _repr_html_(self) -> str:
        """Describe it to a notebook: the sentence, what was refused, and a row a layer."""
        refused = {f"refused: {name}": reason for name, reason in self.refusals}
        return card(self.summary, refused, grid(COLUMNS, [proof.cells for proof in self.layers]))

    def as_dict(self) -> dict[str, Any]:
        """Everything, in the types of JSON."""
        return {
            "exact": self.exact,
            "dtype": str(self.dtype).removeprefix("torch."),
            "limit": self.limit,
            "same_output": self.same_output,
            "n_tokens": list(self.n_tokens),
            "notes": list(self.notes),
            "layers": [p.as_dict() for p in self.layers],
            "refused": [{"name": n, "reason": r} for n, r in self.refusals],
            "without_attention": list(self.without),
        }


@inference.settled()
def verify(
    model: Given,
    prompts: Prompts,
    *,
    names: Sequence[str] | None = None,
    layers: Iterable[int] | None = None,
    max_length: int | None = None,
    batch_size: int = 1,
) -> Verification:
    """Rebuild every attention layer of a model as a connection walk and compare with the model.

    Args:
        model: a loaded model, a live module, or anything :func:`conwalk.load` takes.
        prompts: texts, token id sequences, or ready inputs.
        names: of the prompts; their index by default.
        layers: layer numbers; all by default.
        max_length: cut texts to this many tokens.
        batch_size: prompts in one padded pass.

    Returns:
        A proof for each layer. Theory §1.

    Raises:
        InputError: the model, the texts or the layers cannot be used.
        CaptureError: the model's pass cannot be watched.
    """
    model = model_of(model)
    batches = Batches(model, prompts, names=names, max_length=max_length, batch_size=batch_size)
    watched = watch(model.module, batches.example)
    sites = watched.layers(layers)
    limit = tolerance.reconstruction(model.dtype)
    found = Verification(model.dtype, limit, refused=watched.refused, without=watched.without)
    found.skipped = {s.name: s.reason for s in batches.skipped}
    naming = Naming(batches, watched)
    found.n_tokens = tuple(len(labels) for labels in naming.labels(naming.main))
    proofs = {s.index: LayerProof(s, limit) for s in sites}
    for inputs, _ in batches:
        same = _watch_once(watched, inputs, sites, proofs)
        found.same_output = found.same_output and same
    found.layers = list(proofs.values())
    found.notes = tuple(batches.notes)
    return found


def _watch_once(
    watched: Watch,
    inputs: dict[str, Tensor],
    sites: tuple[AttentionSite, ...],
    proofs: dict[int, LayerProof],
) -> bool:
    returned = watched.stream(inputs, lambda layer: prove(layer, proofs[layer.site.index]), sites)
    with inference.eager(watched.module):
        unwatched = inference.forward(watched.module, inputs)
    one, other = inference.first_tensor(returned), inference.first_tensor(unwatched)
    return one is not None and other is not None and torch.equal(one, other)


def prove(layer: CapturedLayer, proof: LayerProof) -> None:
    """Rebuild one captured layer in three ways and keep the worst of what was seen so far."""
    walk, x = layer.walk, layer.value_input
    sums = layer.attention.sum(-1)
    proof.residual = max(proof.residual, reconstruction_residual(walk(x), layer.output))
    proof.head_residual = max(proof.head_residual, *head_residuals(layer))
    proof.one_walk_residual = max(proof.one_walk_residual, one_walk.residual(walk, x))
    proof.row_sum_defect = max(proof.row_sum_defect, float((sums - 1).abs().max()))
    proof.leak = max(proof.leak, layer.leak)
    proof.least_weight = min(proof.least_weight, float(layer.attention.min()))
    if walk.is_square:
        proof.reach = max(proof.reach, layer.reach)


def head_residuals(layer: CapturedLayer) -> list[float]:
    """Each head alone against the module's own output projection with the other heads zeroed.

    Returns:
        One relative residual a head. Theory §1, single head.
    """
    linear, reads = layer.site.output.linear, layer.site.output.reads.to(layer.read.device)
    residuals: list[float] = []
    for head in range(layer.walk.n_heads):
        alone = layer.read.new_zeros(layer.read.shape[1], reads.numel())
        alone[:, reads[head]] = layer.read[head]
        rebuilt = layer.walk.heads[head](layer.value_input)
        if layer.walk.b_O is not None:
            rebuilt = rebuilt + layer.walk.b_O
        residuals.append(reconstruction_residual(rebuilt, linear.forward(alone).detach()))
    return residuals
