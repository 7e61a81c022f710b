"""What the positions of every attention are called, and which of them are special."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conwalk.capture import CapturedLayer, Watch
from conwalk.models.encoding import from_ids
from conwalk.models.sites import AttentionSite, Side
from conwalk.models.token_labels import piece
from conwalk.pipeline.media import Positions
from conwalk.pipeline.prompts import Prompt
from conwalk.pipeline.source import Batches, has_media, tokens_of

SIDES: tuple[Side, ...] = ("source", "other", "target")
_DECODER = "decoder_"

Lengths = Mapping[int, tuple[int, int]]
"""Queries and keys of a prompt by the index of the site."""


@dataclass(frozen=True)
class Named:
    """One sequence of positions.

    Attributes:
        labels: what each is.
        special: which are no part of the text, the image or the audio.
    """

    labels: tuple[str, ...]
    special: tuple[bool, ...]

    def kept(self, whole: bool) -> tuple[str, ...]:
        """The labels, those of special positions only if all are wanted."""
        pairs = zip(self.labels, self.special, strict=True)
        return tuple(label for label, special in pairs if whole or not special)


class Naming:
    """The names of the positions of every prompt, by the sequence they belong to.

    Token sequences are known before the model runs. What an image or audio becomes is not: each is
    sent through the model once, to count positions.

    Args:
        batches: the prompts.
        watched: the model.
        exclude_special: whether special positions are left out.
    """

    def __init__(self, batches: Batches, watched: Watch, *, exclude_special: bool = False) -> None:
        self._whole = not exclude_special
        self._of: list[dict[Side, Named]] = []
        self._sides: dict[int, tuple[Side, Side]] = {}
        for inputs, chosen in batches.passes:
            decoder = tokens_of(inputs, _DECODER)
            counted = _counted(watched, inputs, len(chosen)) if has_media(inputs) else None
            for place, index in enumerate(chosen):
                known = _of_text(batches, index, decoder[place] if decoder else None)
                lengths = None if counted is None else counted[place]
                self._add(batches.prompts[index], known, lengths, watched.sites)

    def _add(
        self,
        prompt: Prompt,
        known: dict[Side, Named],
        lengths: Lengths | None,
        sites: Sequence[AttentionSite],
    ) -> None:
        others = [0]
        for site in sites:
            if lengths is None:
                sides = _as_text(site.sides[0], known), _as_text(site.sides[1], known)
            else:
                queries, keys = lengths[site.index]
                sides = (
                    _as_long(site.sides[0], known, queries),
                    _as_long(site.sides[1], known, keys),
                )
                others += [n for s, n in zip(sides, (queries, keys), strict=True) if s == "other"]
            self._sides.setdefault(site.index, sides)
        if max(others):
            positions = prompt.other or Positions()
            known["other"] = Named(positions.labels(max(others)), positions.special(max(others)))
        self._of.append(known)

    @property
    def main(self) -> Side:
        """The sequence that results name first: a text, or else what the first layer reads."""
        used: list[Side] = [side for sides in self._sides.values() for side in sides]
        return "source" if "source" in used or not used else used[0]

    @property
    def sides(self) -> tuple[Side, ...]:
        """Every sequence that any layer reads, the main one first."""
        used = {side for sides in self._sides.values() for side in sides}
        return (self.main, *(side for side in SIDES if side in used and side != self.main))

    @property
    def longest(self) -> int:
        """The most positions of any prompt in any sequence."""
        return max((len(labels) for side in self.sides for labels in self.labels(side)), default=0)

    def labels(self, side: Side) -> list[tuple[str, ...]]:
        """The names of the positions of every prompt in a sequence."""
        nothing = Named((), ())
        return [known.get(side, nothing).kept(self._whole) for known in self._of]

    def tables(self) -> dict[str, list[tuple[str, ...]]]:
        """The names of positions by the ending of what results call them; ``""`` for the main."""
        return {self._ending(side): self.labels(side) for side in self.sides}

    def layer_coordinates(self, sites: Sequence[AttentionSite]) -> dict[str, list[str]]:
        """Which names the queries and the keys of each layer have, where there are several."""
        if len(self.sides) == 1:
            return {}
        ends = ("query_tokens", "key_tokens")
        return {
            end: [f"token_text{self._ending(self.of(s)[axis])}" for s in sites]
            for axis, end in enumerate(ends)
        }

    def _ending(self, side: Side) -> str:
        return "" if side == self.main else f"_{side}"

    def of(self, site: AttentionSite) -> tuple[Side, Side]:
        """The sequences that a site's queries and keys belong to."""
        return self._sides.get(site.index, site.sides)

    def kept(self, site: AttentionSite, prompt: int) -> tuple[Tensor | None, Tensor | None]:
        """The queries and the keys of a site that are not special; None where all are kept."""
        queries, keys = self.of(site)
        return self._kept(queries, prompt), self._kept(keys, prompt)

    def _kept(self, side: Side, prompt: int) -> Tensor | None:
        named = self._of[prompt].get(side)
        if self._whole or named is None or not any(named.special):
            return None
        return torch.tensor([i for i, special in enumerate(named.special) if not special])


def _of_text(batches: Batches, index: int, decoder: Sequence[int] | None) -> dict[Side, Named]:
    prompt = batches.prompts[index]
    known: dict[Side, Named] = {}
    if prompt.pieces:
        known["source"] = Named(prompt.pieces, prompt.special)
    if decoder:
        known["target"] = _in_decoder(batches, prompt, decoder)
    return known


def _in_decoder(batches: Batches, prompt: Prompt, ids: Sequence[int]) -> Named:
    """The text shifted by its start token, or whatever else a decoder is given."""
    tokenizer = batches.model.tokenizer
    if tuple(ids[1:]) == prompt.ids[:-1] and prompt.ids:
        start = str(ids[0]) if tokenizer is None else piece(tokenizer, ids[0])
        return Named((start, *prompt.pieces[:-1]), (True, *prompt.special[:-1]))
    encoded = from_ids(tokenizer, ids)
    return Named(encoded.labels, (True, *encoded.special[1:]))


def _as_text(side: Side, known: Mapping[Side, Named]) -> Side:
    return side if side in known else "source"


def _as_long(side: Side, known: Mapping[Side, Named], n: int) -> Side:
    """The sequence of that length; the one that discovery saw where it fits."""
    for candidate in (side, "source", "target"):
        if candidate in known and len(known[candidate].labels) == n:
            return candidate
    return "other"


def _counted(
    watched: Watch, inputs: dict[str, object], batch: int
) -> list[dict[int, tuple[int, int]]]:
    """How many positions every site has for every prompt of a pass."""
    found: list[dict[int, tuple[int, int]]] = [{} for _ in range(batch)]

    def count(layer: CapturedLayer) -> None:
        found[layer.prompt][layer.site.index] = (layer.n_rows, layer.value_input.shape[0])

    watched.stream(inputs, count, logits=False)
    return found
