"""Which layers and heads: the ``0-3,7`` of the command line."""

from collections.abc import Sequence

from conwalk.errors import SelectionError
from conwalk.metrics import ALL, Metric


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


def panel(names: str | None) -> list[Metric]:
    """The metrics of a comma-separated list of names.

    Args:
        names: names of metrics; ``default`` stands for those that run unasked, ``all`` for all;
            None for the default.

    Raises:
        SelectionError: naming one that does not exist.
    """
    chosen: dict[str, Metric] = {}
    known = {m.name: [m] for m in ALL}
    known["all"], known["default"] = list(ALL), [m for m in ALL if m.default]
    for name in (names or "default").replace(" ", "").split(","):
        if name not in known:
            raise SelectionError(
                f"metric {name!r} does not exist: conwalk metrics lists the names; "
                "all and default stand for several"
            )
        chosen |= {m.name: m for m in known[name]}
    return [m for m in ALL if m.name in chosen]


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
