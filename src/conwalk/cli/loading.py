"""What every command does first: read the texts, load the model."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conwalk.cli import console, texts

if TYPE_CHECKING:
    from conwalk.models import Model


def prompts_of(
    files: Sequence[str] | None,
    prompts: Sequence[str] | None,
    max_length: int | None,
    *,
    default_length: int,
    images: Sequence[str] | None = None,
    audio: Sequence[str] | None = None,
) -> tuple[list[str], list[Any], int | None]:
    """Names of the prompts, the prompts, and how far to cut them.

    The built-in texts are cut to ``default_length``; a text of the user's own is never cut
    unless it was asked for.
    """
    named = texts.gather(files, prompts, images, audio)
    own = bool(files or prompts or images or audio)
    length = max_length if own or max_length is not None else default_length
    return [one.name for one in named], [one.prompt for one in named], length


def load_quietly(
    source: str,
    *,
    device: str,
    dtype: str,
    offline: bool,
    remote: bool,
    quiet: bool,
    max_memory: str | None = None,
    offload: Path | None = None,
) -> "Model":
    """Load a model; say on stderr what its user should know about it."""
    from conwalk.models import load

    console.say(f"loading {source}", quiet=quiet)
    model = load(
        source,
        device=device,
        dtype=dtype,
        offline=True if offline else None,
        trust_remote_code=remote,
        max_memory=max_memory,
        offload=offload,
    )
    say_notes(model.notes, quiet=quiet)
    return model


def say_notes(notes: Iterable[str], *, quiet: bool) -> None:
    """Say on stderr what a user should know, one line each."""
    for note in notes:
        console.say(f"note: {note}", quiet=quiet)
