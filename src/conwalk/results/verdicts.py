"""Verdicts of many layers, said once for all layers of which the same is true."""

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?![\w])")
_KEPT = re.compile(r"token \d+")


def grouped(labels: Sequence[str], verdicts: Sequence[str]) -> list[str]:
    """One line for all layers whose verdicts differ in their numbers only.

    Args:
        labels: of the layers.
        verdicts: one for each, as ``conwalk.metrics.conditions.verdict`` writes them.

    Returns:
        ``layers 0, 3: stochastic; irreversible (κ .20 to .66, …)``, in the order of the layers.
    """
    groups: dict[str, list[int]] = {}
    for place, text in enumerate(verdicts):
        groups.setdefault(_NUMBER.sub("#", _hidden(text)), []).append(place)
    return [
        f"{_named([labels[p] for p in places], len(labels))}: "
        f"{_spread([verdicts[p] for p in places])}"
        for places in groups.values()
    ]


def _hidden(text: str) -> str:
    """Numbers that are names and not measurements are no numbers here."""
    return _KEPT.sub(lambda found: found.group().replace(" ", "\0").replace("0", "\1"), text)


def _named(labels: Sequence[str], total: int) -> str:
    if len(labels) == total and total > 1:
        return f"all {total} layers"
    return f"layer{'s' if len(labels) > 1 else ''} {', '.join(labels)}"


def _spread(texts: Sequence[str]) -> str:
    """The first text, each number replaced by the range it has over all of them."""
    columns = zip(*(_NUMBER.findall(_hidden(t)) for t in texts), strict=True)
    ranges = iter([_range(column) for column in columns])
    spread = _NUMBER.sub(lambda _: next(ranges), _hidden(texts[0]))
    return spread.replace("\0", " ").replace("\1", "0")


def _range(numbers: Sequence[str]) -> str:
    low, high = min(numbers, key=float), max(numbers, key=float)
    return low if low == high else f"{low} to {high}"
