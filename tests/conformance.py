"""What becomes of each family of transformers: exact, exact of a named kind, or refused."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from conwalk.capture import Watch, watch
from conwalk.models import inference
from conwalk.pipeline.verification import LayerProof, prove
from conwalk.theorems import reconstruction


@dataclass
class Outcome:
    watched: Watch
    proofs: list[LayerProof]
    same_output: bool


def outcome(model: nn.Module, inputs: dict[str, Any]) -> Outcome:
    watched = watch(model, inputs)
    limit = reconstruction.bound(inference.dtype_of(model))
    proofs = {s.index: LayerProof(s, limit) for s in watched.sites}
    returned = watched.stream(inputs, lambda layer: prove(layer, proofs[layer.site.index]))
    with inference.eager(model):
        plain = inference.forward(model, inputs)
    return Outcome(watched, list(proofs.values()), _same(returned, plain))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return torch.equal(a.nan_to_num(), b.nan_to_num())
    if isinstance(a, dict):
        return all(_same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return True
