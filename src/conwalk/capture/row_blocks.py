"""Attention of long passes in blocks of query rows, never whole."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from conwalk.capture.layer import CapturedOutput, CapturedRows
from conwalk.models.interception import AttentionCall

_FULL_KEYS = 2048


@dataclass(frozen=True)
class RowBlocks:
    """Have attention computed and handed over in blocks of query rows, never whole.

    Sites whose calls cannot be split, and passes that are short, go to the plain callback.

    Attributes:
        size: query rows in a block; fewer where there are more than 2048 keys, so that a block
            holds no more numbers than that.
        above: passes with at most this many queries are not split.
        rows: receives each block.
        output: receives the layer's output once all its blocks have been handed over.
    """

    size: int
    above: int
    rows: Callable[[CapturedRows], None]
    output: Callable[[CapturedOutput], None]

    def cuts(self, n_queries: int, n_keys: int) -> list[tuple[int, int]]:
        """First and last (excluded) query of every block."""
        size = max(1, min(self.size, self.size * _FULL_KEYS // n_keys))
        return [(f, min(f + size, n_queries)) for f in range(0, n_queries, size)]


def joined_rows(parts: Iterable[tuple[int, Tensor]], call: AttentionCall) -> Tensor:
    """Mixed values of all queries, from those of blocks, in memory that is taken once.

    Blocks kept until the last is there would lie between the attention of one block and the next,
    and keep the allocator from using its room again.
    """
    whole: Tensor | None = None
    for first, part in parts:
        if whole is None:
            whole = part.new_empty((len(part), call.n_queries, *part.shape[2:]))
        whole[:, first : first + part.shape[1]] = part
    return call.run().mixed if whole is None else whole


def tokens_inside(
    positions: Tensor | None, first: int, last: int, n: int
) -> tuple[Tensor | None, int, int]:
    """Which rows of a block are tokens, how many tokens came before, and how many there are."""
    if positions is None:
        return None, first, n
    inside = (positions >= first) & (positions < last)
    return positions[inside] - first, int((positions < first).sum()), positions.numel()
