"""Random walks of all kinds, for hypothesis: shapes, masks, leaks, signs, scales and gates."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from conwalk.connection import ConnectionWalk


@dataclass(frozen=True)
class WalkCase:
    """The arrays of a float64 walk, and a field that it can be applied to."""

    attention: Tensor
    W_V: Tensor
    W_O: Tensor
    b_V: Tensor | None
    b_O: Tensor | None
    value_scale: Tensor | None
    output_gate: Tensor | None
    x: Tensor
    y: Tensor

    @property
    def extras(self) -> dict[str, Any]:
        return {"value_scale": self.value_scale, "output_gate": self.output_gate}

    @property
    def walk(self) -> ConnectionWalk:
        return ConnectionWalk(self.attention, self.W_V, self.W_O, self.b_V, self.b_O, **self.extras)

    @property
    def group(self) -> int:
        return len(self.W_O) // len(self.W_V)

    @property
    def sizes(self) -> "WalkCase":
        """The same walk with every number positive: the sizes of all terms."""
        parts = {name: part.abs() for name, part in vars(self).items() if part is not None}
        return replace(self, **parts)

    def change(self, **parts: Any) -> "WalkCase":
        return replace(self, **parts)


def make_case(
    heads: int = 3,
    group: int = 1,
    queries: int = 4,
    keys: int = 4,
    width_in: int = 5,
    width_out: int = 5,
    value: int = 2,
    kind: str = "plain",
    bias: bool = True,
    scale: bool = False,
    gate: bool = False,
    seed: int = 0,
) -> WalkCase:
    """A random walk; ``heads`` counts value heads, each read by ``group`` query heads."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    total = heads * group
    return WalkCase(
        attention=_attention(kind, normal(total, queries, keys)),
        W_V=normal(heads, width_in, value),
        W_O=normal(total, value, width_out),
        b_V=normal(heads, value) if bias else None,
        b_O=normal(width_out) if bias else None,
        value_scale=normal(total, keys).exp() if scale else None,
        output_gate=normal(total, queries, value) if gate else None,
        x=normal(keys, width_in),
        y=normal(queries, width_out),
    )


def _attention(kind: str, scores: Tensor) -> Tensor:
    if kind == "signed":
        return scores
    if kind == "causal":
        scores = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), -torch.inf)
    weights = torch.softmax(scores, -1)
    if kind == "leaking":
        return weights * torch.sigmoid(scores[..., :1])
    if kind == "holes":
        return weights * (scores > 0).any(0) * (scores < 1)
    return weights


KINDS = ("plain", "causal", "leaking", "signed", "holes")


@st.composite
def walk_cases(draw: Any, square: bool | None = None, gate: bool | None = None) -> WalkCase:
    """Any walk; ``square`` and ``gate`` fix what is otherwise drawn."""
    small = st.integers(1, 5)
    is_square = draw(st.booleans()) if square is None else square
    kind = draw(st.sampled_from(KINDS))
    queries, width_in = draw(small), draw(small)
    return make_case(
        heads=draw(st.integers(1, 3)),
        group=draw(st.integers(1, 3)),
        queries=queries,
        keys=queries if is_square or kind == "causal" else draw(small),
        width_in=width_in,
        width_out=width_in if is_square else draw(small),
        value=draw(st.integers(1, 6)),
        kind=kind,
        bias=draw(st.booleans()),
        scale=draw(st.booleans()),
        gate=draw(st.booleans()) if gate is None else gate,
        seed=draw(st.integers(0, 2**16)),
    )
