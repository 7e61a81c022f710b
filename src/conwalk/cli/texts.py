"""Prompts from files, standard input and flags."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from conwalk import texts as built_in
from conwalk.errors import TextError

Named = tuple[str, str]
STDIN = "-"


def gather(files: Sequence[str] | None, prompts: Sequence[str] | None) -> list[Named]:
    """Name and text of every prompt asked for; the built-in texts if none was.

    Raises:
        TextError: a file that cannot be read as text.
    """
    found = [*_from_flags(prompts or ())]
    for file in files or ():
        found += _from_file(file)
    if not files and not prompts:
        found = [(name, built_in.load(name)) for name in built_in.DEFAULT]
    return found


def _from_flags(prompts: Sequence[str]) -> Iterator[Named]:
    for i, text in enumerate(prompts):
        yield (f"prompt{i}" if len(prompts) > 1 else "prompt", text)


def _from_file(file: str) -> list[Named]:
    content = sys.stdin.read() if file == STDIN else _read(Path(file))
    if not content.strip():
        state = "empty" if not content else "nothing but white space"
        raise TextError(f"text file {file} is {state}: give one with words in it")
    if file.endswith(".jsonl"):
        return [_from_line(file, i, line) for i, line in enumerate(content.splitlines())]
    return [("stdin" if file == STDIN else Path(file).name, content)]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TextError(f"cannot read text file {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TextError(f"text file {path} is not UTF-8 text: {error.reason}") from error


def _from_line(file: str, number: int, line: str) -> Named:
    """One line of JSONL; a blank one is an empty prompt, reported by its place."""
    if not line.strip():
        return f"{file}:{number}", ""
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise TextError(f"{file}, line {number + 1} is not JSON: {error.msg}") from error
    if isinstance(entry, str):
        return f"{file}:{number}", entry
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
        raise TextError(f'{file}, line {number + 1}: give {{"text": "…"}} or a string')
    return str(entry.get("id", f"{file}:{number}")), entry["text"]
