"""From what a user hands over to token sequences, each with its name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Any

from torch import Tensor

from conwalk.errors import TextError
from conwalk.models import Model
from conwalk.models.encoding import Encoded, encode, from_ids
from conwalk.pipeline import media
from conwalk.pipeline.items import Item, item_of
from conwalk.pipeline.padding import mask, padded

_LIMITS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_seq_length")
_NO_LIMIT = 10**6


@dataclass(frozen=True, eq=False)
class Prompt:
    """One token sequence, with the image or the audio that belongs to it.

    Attributes:
        index: its place among what was handed over.
        name: how results call it.
        ids: token ids, special tokens included as the tokenizer adds them.
        pieces: what each token is of the text.
        extra: other per-token inputs the tokenizer asks for, by name.
        special: which tokens are special ones.
        text: the text; None where there is none.
        ready: inputs of the model for this prompt alone, where they are more than token ids.
        other: what the positions are that are no tokens of a text.
        notes: one line each.
    """

    index: int
    name: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    extra: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    special: tuple[bool, ...] = ()
    text: str | None = None
    ready: Mapping[str, Any] | None = None
    other: media.Positions | None = None
    notes: tuple[str, ...] = ()


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
    given: Sequence[Any],
    names: Sequence[str] | None = None,
    max_length: int | None = None,
) -> tuple[list[Prompt], list[Skipped]]:
    """Turn texts (or ready token ids, images, audio) into prompts.

    Args:
        model: with a tokenizer, unless every text is given as token ids.
        given: what :func:`conwalk.pipeline.items.item_of` takes, each.
        names: how results call them; their ``id`` or their index by default.
        max_length: cut every text to this many tokens; None to refuse texts that are too long.

    Returns:
        The prompts, and the texts that were skipped with the reason.

    Raises:
        TextError: no text is left, two have one name, or ``max_length`` is not a length the model
            can read.
    """
    limit = longest(model)
    _check_length(max_length, limit)
    if names is not None and len(names) != len(given):
        raise TextError(f"{len(names)} names for {len(given)} prompts: give one for each")
    prompts: list[Prompt] = []
    skipped: list[Skipped] = []
    for index, one in enumerate(given):
        name = str(index) if names is None else names[index]
        try:
            item = item_of(one)
            name = name if names is not None or item.name is None else item.name
            prompts.append(_prompt(model, index, name, item, max_length, limit))
        except TextError as problem:
            skipped.append(Skipped(index, name, str(problem)))
    if not prompts:
        raise TextError(_nothing_left(skipped))
    _check_names(prompts)
    return prompts, skipped


def _check_names(prompts: Sequence[Prompt]) -> None:
    first: dict[str, int] = {}
    for prompt in prompts:
        if prompt.name in first:
            raise TextError(
                f"prompts {first[prompt.name]} and {prompt.index} are both called "
                f"{prompt.name!r}; give every prompt a name (id) of its own"
            )
        first[prompt.name] = prompt.index


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
    model: Model, index: int, name: str, item: Item, max_length: int | None, limit: int | None
) -> Prompt:
    if item.image is not None or item.audio is not None:
        found = media.read(model, item)
        encoded = from_ids(model.tokenizer, found.ids)
    else:
        found = None
        encoded = _encoded(model, item, max_length, limit)
    text = item.text if item.pair is None else f"{item.text}\n{item.pair}"
    return Prompt(
        index=index,
        name=name,
        ids=encoded.ids,
        pieces=encoded.labels,
        extra=encoded.extra,
        special=encoded.special,
        text=text,
        ready=None if found is None else found.inputs,
        other=None if found is None else found.positions,
        notes=item.notes if found is None else (*item.notes, *found.notes),
    )


def _encoded(model: Model, item: Item, max_length: int | None, limit: int | None) -> Encoded:
    if item.ids is not None:
        encoded = from_ids(model.tokenizer, item.ids)
    else:
        text = item.text or ""
        _check_text(text, "it")
        if item.pair is not None:
            _check_text(item.pair, "its pair")
        encoded = encode(model.require_tokenizer(), text, item.pair)
    if not encoded.ids:
        raise TextError("it has no tokens")
    vocabulary = getattr(getattr(model.module, "config", None), "vocab_size", None)
    if vocabulary is not None and not 0 <= min(encoded.ids) <= max(encoded.ids) < vocabulary:
        raise TextError(f"it holds a token id outside the vocabulary, 0-{vocabulary - 1}")
    if max_length is not None:
        return encoded.cut(max_length)
    if limit is not None and len(encoded.ids) > limit:
        raise TextError(
            f"it has {len(encoded.ids)} tokens and the model reads at most {limit}; cut it with "
            f"--max-length {limit} (max_length={limit})"
        )
    return encoded


def _check_text(text: str, what: str) -> None:
    if not text.strip():
        state = "is empty" if not text else "holds nothing but white space"
        raise TextError(f"{what} {state}")
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise TextError(
            f"{what} holds half a character (a lone surrogate) at {problem.start}, which no "
            "tokenizer reads; mend its encoding"
        ) from problem


def batch(prompts: Sequence[Prompt], model: Model) -> dict[str, Tensor]:
    """The inputs of one pass: right-padded, with a mask made from lengths and not from ids."""
    padding = getattr(model.tokenizer, "pad_token_id", None) or 0
    inputs = {
        "input_ids": padded([p.ids for p in prompts], padding, model.device),
        "attention_mask": mask([len(p.ids) for p in prompts], model.device),
    }
    known = signature(model.module.forward).parameters
    takes_all = any(p.kind is Parameter.VAR_KEYWORD for p in known.values())
    for name in prompts[0].extra:
        if (takes_all or name in known) and all(name in p.extra for p in prompts):
            inputs[name] = padded([p.extra[name] for p in prompts], 0, model.device)
    start = decoder_start(model)
    if start is not None:
        # the decoder reads the same text, shifted by its start token as in training
        shifted = [[start, *p.ids[:-1]] for p in prompts]
        inputs["decoder_input_ids"] = padded(shifted, padding, model.device)
        inputs["decoder_attention_mask"] = inputs["attention_mask"]
    return inputs


def decoder_start(model: Model) -> int | None:
    """The token that the decoder of an encoder-decoder starts with; None for other models."""
    config = getattr(model.module, "config", None)
    start = getattr(config, "decoder_start_token_id", None)
    return start if getattr(config, "is_encoder_decoder", False) else None
