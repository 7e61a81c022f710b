"""What every token is of its text: a slice of it, or a part of a character."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PART = "·"
"""Stands between what is of the text and what is said about it: ``語·2/3``, ``☂·[UNK]``."""

_BROKEN = "\ufffd"
_PREFIX = "▁"
_LONGEST_RUN = 16
_UNKNOWN = "unk_token"


@dataclass(frozen=True)
class Span:
    """Where a token lies.

    Attributes:
        text: the text it was read from; None for one that the tokenizer added.
        first: index of its first character.
        last: index after its last character.
    """

    text: int | None
    first: int
    last: int


def special_ids(tokenizer: Any) -> frozenset[int]:
    """The ids of all special tokens, without the one that stands for an unknown word."""
    named = dict(getattr(tokenizer, "special_tokens_map", {}))
    unknown = named.pop(_UNKNOWN, None)
    tokens: list[str] = []
    for value in named.values():
        tokens += [value] if isinstance(value, str) else [str(v) for v in value]
    known = {str(t) for t in getattr(tokenizer, "all_special_tokens", ())}
    tokens += sorted(known - set(tokens) - {unknown})
    return frozenset(int(tokenizer.convert_tokens_to_ids(t)) for t in tokens)


def unknown_id(tokenizer: Any) -> int | None:
    """The id of what stands for a word that is not in the vocabulary, if there is one."""
    return getattr(tokenizer, "unk_token_id", None)


def piece(tokenizer: Any, token: int) -> str:
    """A token as the vocabulary writes it; its number where there is no vocabulary to ask."""
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        found = tokenizer.convert_ids_to_tokens(int(token))
        if found is not None:
            return found.decode(errors="replace") if isinstance(found, bytes) else str(found)
    return str(token)


def of_spans(
    tokenizer: Any, ids: Sequence[int], spans: Sequence[Span], texts: Sequence[str]
) -> tuple[str, ...]:
    """Label tokens with what they are of their text.

    Args:
        tokenizer: names special tokens, and those that are of no character.
        ids: the tokens.
        spans: where each lies.
        texts: what the spans point into.

    Returns:
        The slice of the text; ``語·2/3`` for the second of three tokens that make one character
        together; a special token by its name; ``☂·[UNK]`` for a word that is not in the vocabulary.
    """
    special, unknown = special_ids(tokenizer), unknown_id(tokenizer)
    pieces = [piece(tokenizer, token) for token in ids]
    of_text = [
        token not in special and _is_of_text(span, name, texts)
        for token, span, name in zip(ids, spans, pieces, strict=True)
    ]
    covered = Counter(
        (span.text, at)
        for span, counts in zip(spans, of_text, strict=True)
        if counts
        for at in range(span.first, span.last)
    )
    seen: Counter[tuple[int | None, int]] = Counter()
    labels: list[str] = []
    for token, span, name, counts in zip(ids, spans, pieces, of_text, strict=True):
        shown = _shown(span, texts, covered, seen) if counts else name
        foreign = counts and token == unknown and shown != name
        labels.append(f"{shown}{PART}{name}" if foreign else shown or name)
    return tuple(labels)


def _is_of_text(span: Span, name: str, texts: Sequence[str]) -> bool:
    """Whether a token is of the characters it lies on: a prefix is put before them."""
    if span.text is None:
        return False
    return name != _PREFIX or texts[span.text][span.first : span.last].isspace()


def _shown(
    span: Span,
    texts: Sequence[str],
    covered: Counter[tuple[int | None, int]],
    seen: Counter[tuple[int | None, int]],
) -> str:
    if span.text is None:
        return ""
    shown = ""
    for at in range(span.first, span.last):
        place = (span.text, at)
        seen[place] += 1
        parts = covered[place]
        character = texts[span.text][at]
        shown += character if parts == 1 else _part(character, seen[place], parts)
    return shown


def _part(character: str, number: int, of: int) -> str:
    return f"{character}{PART}{number}/{of}"


def of_ids(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """Label tokens whose text is not known, or not where they lie in it.

    Args:
        tokenizer: one that decodes; None for none.
        ids: the tokens.

    Returns:
        What each decodes to; where several make one character together, that and the number of
        each; special tokens by name, and numbers where there is no tokenizer.
    """
    if not hasattr(tokenizer, "decode"):
        return tuple(str(token) for token in ids)
    special = special_ids(tokenizer)
    labels: list[str] = []
    at = 0
    while at < len(ids):
        run = _run(tokenizer, ids, at, special)
        labels += run
        at += len(run)
    return tuple(labels)


def _run(tokenizer: Any, ids: Sequence[int], at: int, special: frozenset[int]) -> list[str]:
    """Labels of the token at a place, and of those that it makes whole characters with."""
    if ids[at] in special:
        return [piece(tokenizer, ids[at])]
    decoded = str(tokenizer.decode([ids[at]]))
    if decoded and _BROKEN not in decoded:
        return [decoded]
    for end in range(at + 2, min(at + _LONGEST_RUN, len(ids)) + 1 if decoded else 0):
        if ids[end - 1] in special:
            break
        decoded = str(tokenizer.decode(list(ids[at:end])))
        if _BROKEN not in decoded:
            return [_part(decoded, number + 1, end - at) for number in range(end - at)]
    return [piece(tokenizer, ids[at])]
