"""What a user hands over as one prompt, whatever form it has."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from conwalk.errors import TextError
from conwalk.pipeline import media_files

_KEYS = ("text", "pair", "ids", "input_ids", "image", "audio", "sampling_rate", "notes", "id")
_PAIR = 2
_COLOURED = 3


@dataclass(frozen=True, eq=False)
class Item:
    """One prompt before it is read.

    Attributes:
        text: a text.
        pair: the text that goes with it.
        ids: token ids, in place of a text.
        image: a PIL image, or an array of 8-bit numbers ``(row, column, colour)``.
        audio: samples of one channel.
        sampling_rate: of the audio, in Hz; that which the model reads by default.
        notes: what was done to it, one line each.
        name: how results call it.
    """

    text: str | None = None
    pair: str | None = None
    ids: tuple[int, ...] | None = None
    image: Any = None
    audio: Any = None
    sampling_rate: int | None = None
    notes: tuple[str, ...] = ()
    name: str | None = None


def item_of(given: Any) -> Item:
    """Recognise what was given as one prompt.

    Args:
        given: a text; ``(text, pair)``; token ids; an image; audio samples; or a mapping with some
            of ``text, pair, ids, image, audio, sampling_rate, id``, where image and audio may be
            files.

    Raises:
        TextError: it is none of these.
    """
    if isinstance(given, Item):
        return given
    if isinstance(given, str):
        return Item(text=given)
    if isinstance(given, Mapping):
        return _of_mapping(given)
    if isinstance(given, tuple) and len(given) == _PAIR and all(isinstance(t, str) for t in given):
        return Item(text=given[0], pair=given[1])
    if is_image(given):
        return Item(image=given)
    if is_audio(given):
        return Item(audio=given)
    return Item(ids=_token_ids(given))


def is_image(given: Any) -> bool:
    """Whether it is a PIL image, or an array of coloured points."""
    if any(kind.__module__.startswith("PIL.") for kind in type(given).__mro__):
        return True
    return isinstance(given, np.ndarray) and given.ndim == _COLOURED and given.dtype == np.uint8


def is_audio(given: Any) -> bool:
    """Whether it is one row of samples: numbers with a fraction."""
    if isinstance(given, Tensor):
        return given.dim() == 1 and given.is_floating_point()
    return isinstance(given, np.ndarray) and given.ndim == 1 and given.dtype.kind == "f"


def _of_mapping(given: Mapping[str, Any]) -> Item:
    unknown = [key for key in given if key not in _KEYS]
    if unknown:
        raise TextError(
            f"it has {unknown[0]!r}, which no prompt has; give some of text, pair, ids, image, "
            "audio, sampling_rate, id"
        )
    ids = given.get("ids", given.get("input_ids"))
    text, pair, name = given.get("text"), given.get("pair"), given.get("id")
    for key, value in (("text", text), ("pair", pair)):
        if value is not None and not isinstance(value, str):
            raise TextError(f"its {key} is {type(value).__name__}, not a text")
    if ids is not None and (text is not None or pair is not None):
        raise TextError("it has both a text and token ids; give one of the two")
    if pair is not None and text is None:
        raise TextError("it has a pair and no text that it goes with; give both")
    image, audio, rate, notes = _media(given)
    if text is None and ids is None and image is None and audio is None:
        raise TextError("it has neither text, ids, image nor audio; give one of them")
    return Item(
        text=text,
        pair=pair,
        ids=None if ids is None else _token_ids(ids),
        image=image,
        audio=audio,
        sampling_rate=rate,
        notes=notes,
        name=None if name is None else str(name),
    )


def _media(given: Mapping[str, Any]) -> tuple[Any, Any, int | None, tuple[str, ...]]:
    """Image, audio, its sampling rate, and notes; read from files where files are named."""
    image, audio, rate = given.get("image"), given.get("audio"), given.get("sampling_rate")
    notes: tuple[str, ...] = tuple(given.get("notes", ()))
    if isinstance(image, str | os.PathLike):
        image = media_files.read_image(Path(image))
    if isinstance(audio, str | os.PathLike):
        audio, rate, told = media_files.read_audio(Path(audio))
        notes += told
    return image, audio, rate, notes


def _token_ids(given: Any) -> tuple[int, ...]:
    if isinstance(given, Tensor | np.ndarray):
        given = given.tolist()
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise TextError(
            f"{type(given).__name__} is no prompt; give a text, (text, pair), token ids, an image "
            "or audio samples"
        )
    ids: list[int] = []
    for token in given:
        whole = isinstance(token, int | np.integer) or (
            isinstance(token, Tensor) and token.dim() == 0 and not token.is_floating_point()
        )
        if isinstance(token, bool) or not whole:
            raise TextError(
                f"it is a sequence with {str(token)[:40]!r} in it, which is no token id; texts are "
                "given as they are, a pair of texts as (text, pair)"
            )
        ids.append(int(token))
    return tuple(ids)
