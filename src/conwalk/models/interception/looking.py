"""A function mode that can look away."""

from collections.abc import Generator
from contextlib import contextmanager

from torch.overrides import TorchFunctionMode


class LookingMode(TorchFunctionMode):
    """Sees what a model calls, unless told to look away."""

    def __init__(self) -> None:
        super().__init__()
        self._looking = True

    @contextmanager
    def quiet(self) -> Generator[None]:
        """Look away: calls made inside are the model's own business."""
        before, self._looking = self._looking, False
        try:
            yield
        finally:
            self._looking = before
