"""What the value projections read, from there until attention is done with it."""

from collections import Counter
from collections.abc import Sequence

from torch import Tensor

from conwalk.capture.alignment import joined
from conwalk.errors import CaptureError
from conwalk.models.linear import Linear
from conwalk.models.sites import AttentionSite


class ValueInputs:
    """Inputs of the value projections of some sites during one pass.

    A later layer may use the values of an earlier one again, and keys may be made of two sequences
    sent through one projection; an input goes once no site can ask for it any more.
    """

    def __init__(self, sites: Sequence[AttentionSite]) -> None:
        self._asking = Counter(s.value.linear for s in sites)
        self._read: dict[Linear, list[Tensor]] = {}
        self._used: set[Linear] = set()

    def note(self, linear: Linear, x: Tensor) -> None:
        """A projection reads ``x``."""
        if not self._asking[linear]:
            return
        if linear in self._used:
            self._used.discard(linear)
            del self._read[linear]
        self._read.setdefault(linear, []).append(x)

    def of(self, site: AttentionSite, groups: int, length: int) -> Tensor:
        """What the values of one call were made of, ``(group, key, width)``.

        Raises:
            CaptureError: nothing was read, or not as many tokens as attention counts.
        """
        linear = site.value.linear
        if linear not in self._read:
            raise CaptureError(f"{site.name}: its value projection was not reached")
        try:
            found = joined(self._read[linear], groups, length, turned=site.value.turned)
        except CaptureError as problem:
            raise CaptureError(f"{site.name}: {problem}") from None
        self._used.add(linear)
        self._asking[linear] -= 1
        if not self._asking[linear]:
            del self._read[linear]
            self._used.discard(linear)
        return found
