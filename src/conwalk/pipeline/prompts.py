"""From what a user hands over to token sequences, each with its name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from conwalk.errors import TextError
from conwalk.models import Model

Text = str | Sequence[int]

_LIMITS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_seq_length")
_NO_LIMIT = 10**6


@dataclass(frozen=True, eq=False)
class Prompt:
    """One token sequence.

    Attributes:
        index: its place among what was handed over.
        name: how results call it.
        ids: token ids, special tokens included as the tokenizer adds them.
        pieces: the tokens as text.
        extra: other per-token inputs the tokenizer asks for, by name.
    """

    index: int
    name: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    extra: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Skipped:
    """A text that could not be used.

    Attributes:
        index: its place among what was handed over.
        name: how results call it.
        reason: one line.
    """

    index: int
    name: str
    reason: str


def longest(model: Model) -> int | None:
    """How many tokens the model can read; None if nothing says so."""
    config = getattr(model.module, "config", None)
    stated = [getattr(config, name, None) for name in _LIMITS]
    stated.append(getattr(model.tokenizer, "model_max_length", None))
    known = [n for n in stated if isinstance(n, int) and 0 < n < _NO_LIMIT]
    return min(known, default=None)


def tokenise(
    model: Model,
    texts: Sequence[Text],
    names: Sequence[str] | None = None,
    max_length: int | None = None,
) -> tuple[list[Prompt], list[Skipped]]:
    """Turn texts (or ready token ids) into prompts.

    Args:
        model: with a tokenizer, unless every text is given as token ids.
        texts: strings, or sequences of token ids.
        names: how results call them; their index by default.
        max_length: cut every text to this many tokens; None to refuse texts that are too long.

    Returns:
        The prompts, and the texts that were skipped with the reason.

    Raises:
        TextError: no text is left, or ``max_length`` is not a length the model can read.
    """
    limit = longest(model)
    _check_length(max_length, limit)
    names = [str(i) for i in range(len(texts))] if names is None else names
    prompts: list[Prompt] = []
    skipped: list[Skipped] = []
    for index, (name, text) in enumerate(zip(names, texts, strict=True)):
        try:
            prompts.append(_prompt(model, index, name, text, max_length, limit))
        except TextError as problem:
            skipped.append(Skipped(index, name, str(problem)))
    if not prompts:
        raise TextError(_nothing_left(skipped))
    return prompts, skipped


def _nothing_left(skipped: Sequence[Skipped]) -> str:
    if not skipped:
        return "no text was given: pass at least one"
    first = skipped[0]
    more = f" (and {len(skipped) - 1} more)" if len(skipped) > 1 else ""
    return f"text {first.name}: {first.reason}{more}"


def _check_length(max_length: int | None, limit: int | None) -> None:
    if max_length is None:
        return
    if max_length < 1:
        raise TextError(f"max length {max_length} leaves no token: give 1 or more")
    if limit is not None and max_length > limit:
        raise TextError(
            f"max length {max_length} is more than the {limit} tokens this model can read"
        )


def _prompt(
    model: Model, index: int, name: str, text: Text, max_length: int | None, limit: int | None
) -> Prompt:
    ids, extra = _ids(model, text)
    if max_length is not None:
        ids, extra = ids[:max_length], {k: v[:max_length] for k, v in extra.items()}
    elif limit is not None and len(ids) > limit:
        raise TextError(
            f"it has {len(ids)} tokens and the model reads at most {limit}; cut it with "
            f"--max-length {limit} (max_length={limit})"
        )
    return Prompt(index, name, ids, _pieces(model.tokenizer, ids), extra)


def _ids(model: Model, text: Text) -> tuple[tuple[int, ...], dict[str, tuple[int, ...]]]:
    if isinstance(text, str):
        if not text.strip():
            raise TextError("it is empty" if not text else "it holds nothing but white space")
        encoded = model.require_tokenizer()(text, verbose=False)
        extra = {
            k: tuple(v) for k, v in encoded.items() if k not in ("input_ids", "attention_mask")
        }
        ids = tuple(encoded["input_ids"])
    else:
        ids, extra = tuple(int(i) for i in text), {}
    if not ids:
        raise TextError("it has no tokens")
    vocabulary = getattr(getattr(model.module, "config", None), "vocab_size", None)
    if vocabulary is not None and not 0 <= min(ids) <= max(ids) < vocabulary:
        raise TextError(f"it holds a token id outside the vocabulary, 0-{vocabulary - 1}")
    return ids, extra


def _pieces(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    if tokenizer is None:
        return tuple(str(i) for i in ids)
    return tuple(tokenizer.decode([i]) for i in ids)


def batch(prompts: Sequence[Prompt], model: Model) -> dict[str, Tensor]:
    """The inputs of one pass: right-padded, with a mask made from lengths and not from ids."""
    longest_prompt = max(len(p.ids) for p in prompts)
    padding = getattr(model.tokenizer, "pad_token_id", None) or 0

    def padded(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
        full = [[*row, *[fill] * (longest_prompt - len(row))] for row in rows]
        return torch.tensor(full, device=model.device)

    inputs = {
        "input_ids": padded([p.ids for p in prompts], padding),
        "attention_mask": padded([[1] * len(p.ids) for p in prompts], 0),
    }
    for name in prompts[0].extra:
        inputs[name] = padded([p.extra[name] for p in prompts], 0)
    config = getattr(model.module, "config", None)
    start = getattr(config, "decoder_start_token_id", None)
    if getattr(config, "is_encoder_decoder", False) and start is not None:
        # the decoder reads the same text, shifted by its start token as in training
        shifted = [[start, *p.ids[:-1]] for p in prompts]
        inputs["decoder_input_ids"] = padded(shifted, padding)
        inputs["decoder_attention_mask"] = inputs["attention_mask"]
    return inputs
