"""Prompts from files, standard input and flags."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conwalk import texts as built_in
from conwalk.errors import TextError

STDIN = "-"
_KEYS = ("text", "pair", "ids")


@dataclass(frozen=True)
class Named:
    """One prompt.

    Attributes:
        name: how results call it.
        prompt: what the pipeline takes as one prompt.
        place: where it was given, for messages.
    """

    name: str
    prompt: Any
    place: str


def gather(
    files: Sequence[str] | None,
    prompts: Sequence[str] | None,
    images: Sequence[str] | None = None,
    audio: Sequence[str] | None = None,
) -> list[Named]:
    """Every prompt asked for, in the order of the flags; the built-in texts if none was.

    Args:
        files: of texts, or of one prompt a line.
        prompts: texts as they stand; beside images or audio, what goes with these.
        images: files of pictures.
        audio: files of sound.

    Raises:
        TextError: a file that cannot be read, a line that is no prompt, or two prompts of one name.
    """
    if images or audio:
        found = _with_media(files, prompts, images or (), audio or ())
    else:
        found = [*_from_flags(prompts or ())]
        for file in files or ():
            found += _from_file(file, _shown_name(file, files or ()))
    if not (files or prompts or images or audio):
        found = [Named(name, built_in.load(name), "built-in") for name in built_in.DEFAULT]
    _check_names(found)
    return found


def _check_names(found: Iterable[Named]) -> None:
    places: dict[str, str] = {}
    for one in found:
        if one.name in places:
            raise TextError(
                f"two prompts are called {one.name!r}: {places[one.name]} and {one.place}; give "
                "each an id of its own"
            )
        places[one.name] = one.place


def _from_flags(prompts: Sequence[str]) -> Iterator[Named]:
    for i, text in enumerate(prompts):
        yield Named(
            f"prompt{i}" if len(prompts) > 1 else "prompt", text, f"--prompt number {i + 1}"
        )


def _with_media(
    files: Sequence[str] | None,
    prompts: Sequence[str] | None,
    images: Sequence[str],
    audio: Sequence[str],
) -> list[Named]:
    """Images or audio, each with the text that goes with it, if any was given."""
    if files or (images and audio):
        other = "--text" if files else "--audio with --image"
        raise TextError(f"{other} cannot be given here: an image or audio goes with --prompt alone")
    media, kind = (images, "image") if images else (audio, "audio")
    texts: list[str | None] = [None] if not prompts else [*prompts]
    if len(texts) not in (1, len(media)):
        raise TextError(
            f"{len(texts)} --prompt for {len(media)} --{kind}: give one for all, or one for each"
        )
    if len(texts) == 1:
        texts *= len(media)
    found: list[Named] = []
    for file, text in zip(media, texts, strict=True):
        entry = {**_opened(kind, file), **({} if text is None else {"text": text})}
        found.append(Named(_shown_name(file, media), entry, f"--{kind} {file}"))
    return found


def _opened(kind: str, file: str) -> dict[str, Any]:
    from conwalk.pipeline import media_files

    # read before the model is loaded, so that a wrong name costs no time
    if kind == "image":
        return {"image": media_files.read_image(Path(file))}
    samples, rate, notes = media_files.read_audio(Path(file))
    return {"audio": samples, "sampling_rate": rate, "notes": notes}


def _shown_name(file: str, files: Sequence[str]) -> str:
    """A file's name; with its folders where two files have one name."""
    names = Counter(Path(other).name for other in set(files))
    return Path(file).name if names[Path(file).name] == 1 else file


def _from_file(file: str, name: str) -> list[Named]:
    content = _decoded(file)
    if not content.strip():
        state = "empty" if not content else "nothing but white space"
        raise TextError(f"text file {file} is {state}: give one with words in it")
    if file.endswith(".jsonl"):
        # a line ends at a line feed only: JSON lets other separators stand inside its strings
        lines = content.removesuffix("\n").split("\n")
        return [_from_line(file, i + 1, line) for i, line in enumerate(lines)]
    return [Named("stdin" if file == STDIN else name, content, f"--text {file}")]


def _decoded(file: str) -> str:
    """What a file says, without the mark that some editors put before it."""
    try:
        content = sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise TextError(f"cannot read text file {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TextError(f"text file {file} is not UTF-8 text: {error.reason}") from error
    return content.removeprefix("\ufeff")


def _from_line(file: str, number: int, line: str) -> Named:
    """One line of JSONL; a blank one is an empty prompt, reported by its number."""
    name, place = f"{file}:{number}", f"{file}, line {number}"
    if not line.strip():
        return Named(name, "", place)
    try:
        entry = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise TextError(f"{place} is not JSON: {getattr(error, 'msg', error)}") from error
    if isinstance(entry, str):
        return Named(name, entry, place)
    if isinstance(entry, dict):
        entry = {key: value for key, value in entry.items() if value is not None}
    if not isinstance(entry, dict) or not any(key in entry for key in _KEYS):
        raise TextError(f'{place}: give {{"text": "…"}}, {{"ids": [1, 2]}} or a string')
    _check_entry(entry, place)
    prompt = {key: entry[key] for key in _KEYS if key in entry}
    return Named(str(entry.get("id", name)), prompt, place)


def _check_entry(entry: dict[str, Any], place: str) -> None:
    for key in ("text", "pair"):
        if key in entry and not isinstance(entry[key], str):
            raise TextError(f'{place}: its {key} is no text; give {{"{key}": "…"}}')
    ids = entry.get("ids")
    whole = isinstance(ids, list) and all(type(token) is int for token in ids)
    if "ids" in entry and not whole:
        raise TextError(f'{place}: its ids are no list of whole numbers; give {{"ids": [1, 2]}}')
    if "ids" in entry and ("text" in entry or "pair" in entry):
        raise TextError(f"{place} has both a text and ids; give one of the two")
    if "pair" in entry and "text" not in entry:
        raise TextError(f"{place} has a pair and no text that it goes with; give both")
    if not isinstance(entry.get("id", ""), str | int):
        raise TextError(f"{place}: its id is neither a text nor a whole number")
