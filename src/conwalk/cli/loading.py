"""What every command does first: read the texts, load the model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from conwalk.cli import console, texts

if TYPE_CHECKING:
    from conwalk.models import Model


def prompts_of(
    files: Sequence[str] | None,
    prompts: Sequence[str] | None,
    max_length: int | None,
    *,
    default_length: int,
) -> tuple[list[str], list[str], int | None]:
    """Names and texts of the prompts, and how far to cut them.

    The built-in texts are cut to ``default_length``; a text of the user's own is never cut
    unless it was asked for.
    """
    named = texts.gather(files, prompts)
    own = bool(files or prompts)
    length = max_length if own or max_length is not None else default_length
    return [name for name, _ in named], [text for _, text in named], length


def load_quietly(
    source: str, *, device: str, dtype: str, offline: bool, remote: bool, quiet: bool
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
    )
    for note in model.notes:
        console.say(f"note: {note}", quiet=quiet)
    return model
