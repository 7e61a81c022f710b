"""Which layers and heads: the ``0-3,7`` of the command line."""

from collections.abc import Sequence

from conwalk.errors import SelectionError


def numbers(text: str, what: str) -> list[int]:
    """Parse ``0-3,7`` into ``[0, 1, 2, 3, 7]``.

    Args:
        text: numbers and ranges (both ends included), separated by commas.
        what: what is chosen, for messages.

    Raises:
        SelectionError: it is not of that form.
    """
    chosen: set[int] = set()
    for part in text.replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise SelectionError(f"{what} {text!r} cannot be read: write numbers like 0-3,7")
        start, stop = int(first), int(last) if dash else int(first)
        if stop < start:
            raise SelectionError(f"{what} {text!r} runs backwards: write the smaller number first")
        chosen.update(range(start, stop + 1))
    return sorted(chosen)


def existing_heads(wanted: Sequence[int] | None, n_heads: int) -> list[int] | None:
    """The chosen heads, checked against a layer that has ``n_heads``; None for all.

    Raises:
        SelectionError: naming a head that does not exist.
    """
    if wanted is None:
        return None
    missing = [h for h in wanted if not 0 <= h < n_heads]
    if missing:
        raise SelectionError(
            f"head {missing[0]} does not exist: the layers of this model have heads 0-{n_heads - 1}"
        )
    return sorted(set(wanted))
