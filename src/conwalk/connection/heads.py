"""``walk.heads``: parts of a walk, picked by head."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from conwalk.connection.selection import HeadSelector, resolve_heads

Part = TypeVar("Part")


class HeadView(Generic[Part]):
    """A sequence of the heads of a walk; picking some gives a walk of these heads alone.

    Args:
        n_heads: how many heads there are.
        select: makes the part that consists of the given heads.
    """

    def __init__(self, n_heads: int, select: Callable[[list[int]], Part]) -> None:
        """Keep the way to make a part."""
        self._n_heads = n_heads
        self._select = select

    def __len__(self) -> int:
        """Count the heads."""
        return self._n_heads

    def __getitem__(self, selector: HeadSelector) -> Part:
        """Pick one head, a slice of heads, or a list of heads.

        Args:
            selector: a number, a slice or an iterable of numbers.

        Returns:
            The part that consists of these heads, in this order.

        Raises:
            SelectionError: a head that does not exist, or no head at all.
        """
        return self._select(resolve_heads(selector, self._n_heads))

    def __iter__(self) -> Iterator[Part]:
        """Go through the heads one by one."""
        return (self[head] for head in range(self._n_heads))
