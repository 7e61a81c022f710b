"""One forward pass, watched: each attention layer as it happens, proven and let go."""

from conwalk.capture.layer import CapturedLayer, CapturedOutput, CapturedRows
from conwalk.capture.row_blocks import RowBlocks
from conwalk.capture.stream import stream
from conwalk.capture.watching import Watch, watch

__all__ = [
    "CapturedLayer",
    "CapturedOutput",
    "CapturedRows",
    "RowBlocks",
    "Watch",
    "stream",
    "watch",
]
