"""Layers of a model in which nothing attends: state-space, linear attention, convolutions."""

from collections.abc import Iterable

from torch import nn


def layers_without_attention(module: nn.Module, paths: Iterable[str]) -> tuple[str, ...]:
    """Name the members of runs of layers that have no attention while others of the run have.

    A run of layers is a numbered container on the way to a place that attends.

    Args:
        module: the model.
        paths: of all modules that attend, those that could not be read included.

    Returns:
        One line for each run with holes, such as ``model.layers.0-2, 4-6``; true numbers.
    """
    attending: dict[str, set[int]] = {}
    for path in paths:
        words = path.split(".")
        for place, word in enumerate(words):
            if word.isdigit():
                attending.setdefault(".".join(words[:place]), set()).add(int(word))
    lines: list[str] = []
    for path, there in sorted(attending.items()):
        members = (name for name, _ in module.get_submodule(path).named_children())
        missing = sorted({int(name) for name in members if name.isdigit()} - there)
        if missing:
            lines.append(f"{path}.{ranges(missing)}")
    return tuple(lines)


def ranges(numbers: Iterable[int]) -> str:
    """0-3, 7 for [0, 1, 2, 3, 7]."""
    spans: list[tuple[int, int]] = []
    for n in numbers:
        if spans and spans[-1][1] == n - 1:
            spans[-1] = (spans[-1][0], n)
        else:
            spans.append((n, n))
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)
