"""Attention between the tokens of the text alone: special ones left out, rows renormalised."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from conwalk import dims
from conwalk.capture import CapturedLayer, CapturedRows
from conwalk.errors import TextError
from conwalk.models import Model
from conwalk.pipeline.collect import Collector
from conwalk.pipeline.layers import Place
from conwalk.pipeline.naming import Naming
from conwalk.pipeline.prompts import Prompt

INCLUDED = "included"
EXCLUDED = "excluded, rows renormalised"
SHARE = "special_share"
_SHARE_ATTRS = {
    "symbol": "mean_i Σ_{j special} A_ij / Σ_j A_ij",
    "unit": "1",
    "range": (0.0, 1.0),
    "long_name": "share of attention that went to special tokens, which were then left out; mean "
    "over the other queries",
    "section": "Theory §1",
    "comparable_across_length": 0,
}


class _NothingLeftError(Exception):
    """A layer in which the tokens of the text have no attention among themselves."""


@dataclass
class _Share:
    """Attention to special tokens, summed over the queries so far."""

    sums: Tensor
    queries: int = 0


class Exclusion:
    """Takes special tokens out of captured layers, after these have been proven.

    Args:
        naming: says which tokens are special.
        heads: the heads looked at; None for all.
    """

    def __init__(self, naming: Naming, heads: Sequence[int] | None) -> None:
        self._naming = naming
        self._heads = None if heads is None else list(heads)
        self._shares: dict[Place, _Share] = {}
        self._lacks: dict[Place, str] = {}

    def declare(self, collector: Collector) -> None:
        """Make room for the share of attention that is left out."""
        collector.declare(SHARE, (dims.PROMPT, dims.LAYER, dims.HEAD), _SHARE_ATTRS)

    def layer(self, layer: CapturedLayer, place: Place) -> CapturedLayer | None:
        """A whole layer without special tokens; None if nothing is left of it."""
        queries, keys = self._naming.kept(layer.site, place[0])
        kept = self.rows(layer, place)
        if place in self._lacks:
            return None
        return replace(
            layer,
            first=kept.first,
            n_rows=kept.n_rows,
            attention=kept.attention,
            value_input=kept.value_input,
            value=kept.value,
            mixed=_pick(layer.mixed, 1, queries),
            read=_pick(layer.read, 1, queries),
            output=_pick(layer.output, 0, queries),
            scores=None
            if layer.scores is None
            else _pick(_pick(layer.scores, 1, queries), 2, keys),
        )

    def rows(self, rows: CapturedRows, place: Place) -> CapturedRows:
        """A block of query rows without special tokens; there may be no row in it."""
        queries, keys = self._naming.kept(rows.site, place[0])
        try:
            return self._rows(rows, place, queries, keys)
        except _NothingLeftError as lack:
            self._lacks[place] = str(lack)
            return _with(rows, attention=rows.attention[:, :0])

    def close(self, place: Place, collector: Collector) -> str | None:
        """Put the share of attention that was left out of a layer.

        Returns:
            Why nothing is left of the layer, if nothing is.
        """
        share = self._shares.pop(place, None)
        if share is not None and share.queries:
            collector.put(SHARE, place, share.sums / share.queries)
        return self._lacks.pop(place, None)

    def _rows(
        self, rows: CapturedRows, place: Place, queries: Tensor | None, keys: Tensor | None
    ) -> CapturedRows:
        count = rows.attention.shape[1]
        inside, first, n_rows = queries, rows.first, rows.n_rows
        if queries is not None:
            here = (queries >= rows.first) & (queries < rows.first + count)
            inside = queries[here] - rows.first
            first, n_rows = int((queries < rows.first).sum()), queries.numel()
        if not n_rows or (keys is not None and not keys.numel()):
            raise _NothingLeftError("every token is a special one")
        before = _pick(rows.attention, 1, inside)
        attention = _pick(before, 2, keys)
        attention = self._renormalised(before, attention, place)
        return _with(
            rows,
            first=first,
            n_rows=n_rows,
            attention=attention,
            value_input=_pick(rows.value_input, 0, keys),
            value=_pick(rows.value, 1, keys),
        )

    def _renormalised(self, before: Tensor, kept: Tensor, place: Place) -> Tensor:
        """Rows with the sum that they had before; what went to special tokens is added up."""
        if bool((before < 0).any()):
            raise _NothingLeftError("its weights are signed, so rows cannot be renormalised")
        whole, left = before.sum(-1, keepdim=True), kept.sum(-1, keepdim=True)
        empty = int(((left == 0) & (whole > 0)).sum())
        if empty:
            raise _NothingLeftError(
                f"{empty} rows give all their weight to special tokens, so that nothing is left "
                "to renormalise"
            )
        share = 1 - torch.where(whole > 0, left / whole, 1.0).squeeze(-1).double()
        chosen = share if self._heads is None else share[self._heads]
        found = self._shares.setdefault(place, _Share(chosen.new_zeros(chosen.shape[0])))
        found.sums += chosen.clamp(min=0).sum(-1)
        found.queries += chosen.shape[1]
        return kept * torch.where(left > 0, whole / left, 1.0)


def _with(rows: CapturedRows, **changed: Any) -> CapturedRows:
    """Rows with other values; of a whole layer its attention and what that mixes."""
    known = {part.name: getattr(rows, part.name) for part in fields(CapturedRows)}
    return CapturedRows(**{**known, **changed})


def _pick(t: Tensor, axis: int, places: Tensor | None) -> Tensor:
    return t if places is None else t.index_select(axis, places.to(t.device))


def check_special(model: Model, prompts: Sequence[Prompt]) -> None:
    """Refuse to leave out what cannot be told.

    Raises:
        TextError: a prompt has token ids, and there is no tokenizer that knows the special ones.
    """
    if model.tokenizer is None and any(p.ids for p in prompts):
        raise TextError(
            "special tokens cannot be left out: without a tokenizer it is not known which they "
            "are; pass tokenizer="
        )
