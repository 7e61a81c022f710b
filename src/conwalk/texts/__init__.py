"""Short texts written for conwalk: several kinds of prose, verse, code, and languages.

Models differ in what they attend to, so a result should be seen on more than one kind of
text. Each is 120 to 250 words long and may be used freely.
"""

from importlib import resources

from conwalk.errors import TextError

__all__ = ["DEFAULT", "load", "names"]

DEFAULT = ("narrative", "technical", "dialogue")
_SUFFIX = ".txt"


def names() -> tuple[str, ...]:
    """Names of the built-in texts, in alphabetical order."""
    files = (entry.name for entry in resources.files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX)))


def load(name: str) -> str:
    """A built-in text, without the newline at its end.

    Args:
        name: one of :func:`names`.

    Raises:
        TextError: there is no such text.
    """
    if name not in names():
        raise TextError(f"no built-in text is called {name!r}; there are: {', '.join(names())}")
    file = resources.files(__name__) / f"{name}{_SUFFIX}"
    return file.read_text(encoding="utf-8").removesuffix("\n")
