"""Which heads are meant: numbers, slices and lists resolved against what exists."""

from collections.abc import Iterable
from itertools import pairwise

from torch import Tensor

from conwalk.errors import SelectionError

HeadSelector = int | slice | Iterable[int] | Tensor


def resolve_heads(selector: HeadSelector, n_heads: int) -> list[int]:
    """Turn a selector into head numbers, counted from 0.

    Args:
        selector: one head, a slice, or any iterable or tensor of heads; negative numbers count
            from the end.
        n_heads: how many heads there are.

    Returns:
        Head numbers in the order asked for; never empty.

    Raises:
        SelectionError: a head that does not exist, or no head at all.
    """
    if isinstance(selector, slice):
        heads = list(range(n_heads))[selector]
    elif isinstance(selector, int):
        heads = [selector]
    else:
        heads = [int(head) for head in selector]
    if not heads:
        raise SelectionError(f"no head selected: name at least one of the heads 0-{n_heads - 1}")
    return [resolve_index("head", head, n_heads) for head in heads]


def resolve_index(name: str, index: int, size: int) -> int:
    """Turn a possibly negative index into one counted from 0.

    Args:
        name: what is counted, for the message.
        index: the number given.
        size: how many there are.

    Returns:
        A number in [0, size).

    Raises:
        SelectionError: no such thing.
    """
    if not -size <= index < size:
        raise SelectionError(f"{name} {index} does not exist: choose from 0-{size - 1}")
    return index % size


def take(tensor: Tensor, heads: list[int]) -> Tensor:
    """Take entries of the first axis: a view where they are consecutive, else a copy.

    Args:
        tensor: (head, ...).
        heads: resolved head numbers.

    Returns:
        (len(heads), ...).
    """
    if all(after == before + 1 for before, after in pairwise(heads)):
        return tensor[heads[0] : heads[-1] + 1]
    return tensor[heads]
