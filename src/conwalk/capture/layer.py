"""One layer of one prompt, as it was captured."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection import ConnectionWalk, HeadTransports
from conwalk.models.sites import AttentionSite


@dataclass(frozen=True, eq=False)
class CapturedLayer:
    """What one attention site did with one prompt; padding is not in it.

    Attributes:
        site: where.
        prompt: index of the prompt in its batch.
        attention: weights as applied to the values, ``(head, query, key)``.
        value_input: X, what the value projection read, ``(key, d)``.
        value: what the value heads held, ``(kv_head, key, k)``.
        mixed: attention-weighted values before any gate, ``(head, query, k)``.
        read: Z, what W_O read, in the order of the heads, ``(head, query, k)``.
        output: Y, what W_O put out, ``(query, d)``.
        transports: the head maps, shared by all prompts.
        output_bias: b_O, ``(d,)``, or None.
        scores: scaled scores before mask and softmax, ``(head, query, key)``, where asked for.
    """

    site: AttentionSite
    prompt: int
    attention: Float[Tensor, "head query key"]
    value_input: Float[Tensor, "key d_in"]
    value: Float[Tensor, "kv_head key k"]
    mixed: Float[Tensor, "head query k"]
    read: Float[Tensor, "head query k"]
    output: Float[Tensor, "query d_out"]
    transports: HeadTransports
    output_bias: Float[Tensor, " d_out"] | None
    scores: Float[Tensor, "head query key"] | None = None

    @cached_property
    def walk(self) -> ConnectionWalk:
        """The layer as an exact connection walk (Theory §1; input-dependent parts: §7)."""
        return ConnectionWalk.from_transports(
            self.attention,
            self.transports,
            self.output_bias,
            value_scale=self._value_scale() if self.site.value.scaled else None,
            output_gate=self._output_gate() if self.site.output.gated else None,
        )

    @property
    def leak(self) -> float:
        """Largest share of a row that goes to no key (Theory §7); 0 for stochastic rows."""
        return float((1 - self.attention.sum(-1)).max().clamp(min=0))

    def _value_scale(self) -> Tensor:
        """The factor between a value and its linear map, token by token and head by head."""
        plain = torch.einsum("md,gdk->gmk", self.value_input, self.transports.W_V)
        factor = (self.value * plain).sum(-1) / plain.square().sum(-1)
        return factor.repeat_interleave(self.transports.group, 0)

    def _output_gate(self) -> Tensor:
        """What W_O read over what was mixed; 0 where nothing was mixed."""
        ratio = self.read / self.mixed
        return torch.where(self.mixed == 0, torch.zeros_like(ratio), ratio)
