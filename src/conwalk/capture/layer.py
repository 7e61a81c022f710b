"""One layer of one prompt, as it was captured."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import tolerance
from conwalk.connection import ConnectionWalk, HeadTransports
from conwalk.models.sites import AttentionSite

_COMPARED = 32


@dataclass(frozen=True, eq=False)
class CapturedRows:
    """Some query rows of one attention site on one prompt, before the output is known.

    Attributes:
        site: where.
        prompt: index of the prompt in its batch.
        first: index of the first of these rows among the prompt's tokens.
        n_rows: how many query rows the prompt has in all.
        attention: weights as applied to the values, ``(head, query, key)``.
        value_input: X, what the value projection read, ``(key, d)``.
        value: what the value heads held, ``(kv_head, key, k)``.
    """

    site: AttentionSite
    prompt: int
    first: int
    n_rows: int
    attention: Float[Tensor, "head query key"]
    value_input: Float[Tensor, "key d_in"]
    value: Float[Tensor, "kv_head key k"]

    @property
    def transports(self) -> HeadTransports:
        """The head maps, shared by all prompts."""
        return self.site.transports

    @cached_property
    def walk(self) -> ConnectionWalk:
        """These rows as an exact connection walk (Theory §1; input-dependent parts: §7)."""
        return ConnectionWalk.from_transports(
            self.attention,
            self.transports,
            self.site.output_bias(),
            value_scale=self._value_scale() if self.site.value.scaled else None,
            output_gate=self._output_gate(),
        )

    @property
    def leak(self) -> float:
        """Largest share of a row that goes to no key (Theory §7); 0 for stochastic rows."""
        return float((1 - self.attention.sum(-1)).max().clamp(min=0))

    @property
    def reach(self) -> int:
        """Tokens from a query to the farthest key with weight, both counted; 1 for itself alone.

        Counted backwards and forwards by position, so for square attention only.
        """
        used = (self.attention != 0).any(0).nonzero()
        return int((used[:, 0] + self.first - used[:, 1]).abs().max()) + 1

    def _value_scale(self) -> Tensor:
        """The factor between a value and its linear map, token by token and head by head."""
        plain = torch.einsum("md,gdk->gmk", self.value_input, self.transports.W_V)
        square = plain.square().sum(-1)
        # a value that is 0 is 0 whatever its factor
        factor = torch.where(square > 0, (self.value * plain).sum(-1) / square, 1.0)
        return factor.repeat_interleave(self.transports.group, 0)

    def _output_gate(self) -> Tensor | None:
        return None


@dataclass(frozen=True, eq=False)
class CapturedLayer(CapturedRows):
    """What one attention site did with one prompt; padding is not in it.

    Attributes:
        mixed: attention-weighted values before any gate, ``(head, query, k)``.
        read: Z, what W_O read, in the order of the heads, ``(head, query, k)``.
        output: Y, what W_O put out, ``(query, d)``.
        scores: scaled scores before mask and softmax, ``(head, query, key)``, where they were
            asked for and, under the mask's pattern, their softmax is the attention.
        scaling: the factor on query times key in the scores, where the call names it.
        softcap: the bound of the tanh that the scores went through, where the call names one.
    """

    mixed: Float[Tensor, "head query k"]
    read: Float[Tensor, "head query k"]
    output: Float[Tensor, "query d_out"]
    scores: Float[Tensor, "head query key"] | None = None
    scaling: float | None = None
    softcap: float | None = None

    def _output_gate(self) -> Tensor | None:
        """What W_O read over what was mixed; 0 where nothing was mixed."""
        if not self.site.output.gated:
            return None
        ratio = self.read / self.mixed
        return torch.where(self.mixed == 0, torch.zeros_like(ratio), ratio)


@dataclass(frozen=True, eq=False)
class CapturedOutput:
    """The output of a layer whose attention was handed over in rows.

    Attributes:
        site: where.
        prompt: index of the prompt in its batch.
        output: Y, what W_O put out, ``(query, d)``.
    """

    site: AttentionSite
    prompt: int
    output: Float[Tensor, "query d_out"]


def proven_scores(
    scores: Float[Tensor, "head query scored"] | None, attention: Float[Tensor, "head query key"]
) -> Float[Tensor, "head query key"] | None:
    """The scores, if their softmax over the keys that have weight is the attention; else None.

    Rows that leak are compared as shares of what they hold: a sink takes from all keys alike.

    Rows spread evenly over the queries are compared, the first and the last among them: what
    makes scores wrong (a mask, a bias, a scale left in or out) is wrong in all rows or in the last.
    Scores of more keys than there are (with an attention sink as one more) are not passed on.
    """
    if scores is None or scores.shape != attention.shape:
        return None
    n = attention.shape[1]
    chosen = torch.linspace(0, n - 1, min(n, _COMPARED), device=attention.device).round().long()
    seen = attention[:, chosen]
    again = scores[:, chosen].masked_fill((seen == 0).all(0), float("-inf")).softmax(-1)
    limit = tolerance.softmax(attention.dtype)
    held = seen.sum(-1, keepdim=True)
    return scores if bool(((again * held - seen).abs() <= limit * held).all()) else None
