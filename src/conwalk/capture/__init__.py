"""One forward pass, watched: each attention layer as it happens, proven and let go."""

from conwalk.capture.layer import CapturedLayer
from conwalk.capture.stream import stream
from conwalk.capture.watching import Watch, watch

__all__ = ["CapturedLayer", "Watch", "stream", "watch"]
