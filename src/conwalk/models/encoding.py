"""Texts as token ids: what the tokenizer makes of them, and what each token is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conwalk.models import token_labels
from conwalk.models.token_labels import Span

_IDS = "input_ids"
_NOT_GIVEN = (_IDS, "attention_mask", "offset_mapping", "special_tokens_mask")


@dataclass(frozen=True)
class Encoded:
    """One token sequence.

    Attributes:
        ids: the tokens.
        labels: what each is, in words (:mod:`conwalk.models.token_labels`).
        special: which of them are special tokens.
        extra: other inputs with one number a token, by name.
        trailing: how many special tokens stand at the end.
    """

    ids: tuple[int, ...]
    labels: tuple[str, ...]
    special: tuple[bool, ...]
    extra: Mapping[str, tuple[int, ...]]
    trailing: int = 0

    def cut(self, length: int) -> "Encoded":
        """The first tokens of the text, with the special tokens that come after it.

        Args:
            length: how many tokens to keep, special ones included.
        """
        if length >= len(self.ids):
            return self
        after = self.trailing if self.trailing < length else 0
        end = len(self.ids)
        kept = [*range(length - after), *range(end - after, end)]
        return Encoded(
            tuple(self.ids[i] for i in kept),
            tuple(self.labels[i] for i in kept),
            tuple(self.special[i] for i in kept),
            {name: tuple(values[i] for i in kept) for name, values in self.extra.items()},
            after,
        )


def encode(tokenizer: Any, text: str, pair: str | None = None) -> Encoded:
    """Read a text, or two that belong together, with special tokens as the tokenizer adds them.

    A text that starts with the token that the tokenizer puts first (or ends with the one that it
    puts last) has it once. Chat templates are not applied.

    Args:
        tokenizer: a tokenizer of transformers.
        text: the text.
        pair: the text that goes with it.
    """
    texts = [text] if pair is None else [text, pair]
    offsets = bool(getattr(tokenizer, "is_fast", False))
    asked = {"return_offsets_mapping": True} if offsets else {}
    found = tokenizer(*texts, verbose=False, **asked)
    ids = [int(i) for i in found[_IDS]]
    plain = tokenizer(*texts, verbose=False, add_special_tokens=False)[_IDS]
    kept = _once(ids, plain)
    spans = _spans(found, texts) if offsets else None
    extra = {
        name: tuple(int(values[i]) for i in kept)
        for name, values in found.items()
        if name not in _NOT_GIVEN and isinstance(values, list) and len(values) == len(ids)
    }
    ids = [ids[i] for i in kept]
    if spans is None:
        labels = token_labels.of_ids(tokenizer, ids)
    else:
        labels = token_labels.of_spans(tokenizer, ids, [spans[i] for i in kept], texts)
    special = _special(tokenizer, ids, labels)
    return Encoded(tuple(ids), labels, special, extra, _trailing(special))


def from_ids(tokenizer: Any, ids: Sequence[int]) -> Encoded:
    """Take token ids as they are; their labels are what they decode to."""
    known = token_labels.special_ids(tokenizer) if tokenizer is not None else frozenset[int]()
    return Encoded(
        ids=tuple(ids),
        labels=token_labels.of_ids(tokenizer, ids),
        special=tuple(i in known for i in ids),
        extra={},
    )


def _once(ids: list[int], plain: Sequence[int]) -> list[int]:
    """Places of the tokens, without a special one that the text has where one is added as well."""
    places = list(range(len(ids)))
    if len(plain) < 1 or len(ids) <= len(plain):
        return places
    if ids[0] == ids[1] == plain[0] and ids[: len(plain)] != list(plain):
        del places[0]
    if ids[-1] == ids[-2] == plain[-1] and ids[-len(plain) :] != list(plain):
        del places[-1]
    return places


def _spans(found: Any, texts: Sequence[str]) -> list[Span]:
    of: list[int | None] = (
        found.sequence_ids() if hasattr(found, "sequence_ids") else [0] * len(found[_IDS])
    )
    spans: list[Span] = []
    for text, (first, last) in zip(of, found["offset_mapping"], strict=True):
        inside = text is not None and first < last <= len(texts[text])
        spans.append(Span(text if inside else None, first, last if inside else first))
    return spans


def _special(tokenizer: Any, ids: Sequence[int], labels: Sequence[str]) -> tuple[bool, ...]:
    known, unknown = token_labels.special_ids(tokenizer), token_labels.unknown_id(tokenizer)
    # some models have one token for the end of a text and for words that are not known
    name = None if unknown is None else token_labels.piece(tokenizer, unknown)
    return tuple(
        i in known or (i == unknown and label == name) for i, label in zip(ids, labels, strict=True)
    )


def _trailing(special: Sequence[bool]) -> int:
    return next((n for n, s in enumerate(reversed(special)) if not s), 0)
