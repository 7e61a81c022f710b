"""Arrays as a page carries them; static/data.js reads them back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from conwalk.report.digits import DIGITS
from conwalk.report.template import deflated

Kind = Literal["exact", "digits"]

_MANTISSA_BITS = 10
_EXPONENT_BITS = 5
_SIGN = 1 << (_MANTISSA_BITS + _EXPONENT_BITS)
_NAN = (1 << _MANTISSA_BITS) - 1
_LEAST = -22
"""The power of ten that exponent 0 stands for."""


@dataclass
class Blocks:
    """The arrays of one page, each in an element of its own, so that they are read when needed.

    Attributes:
        texts: base64 of every block.
    """

    texts: list[str] = field(default_factory=list[str])

    @property
    def size(self) -> int:
        """Characters of all blocks together."""
        return sum(map(len, self.texts))

    def add(self, values: NDArray[Any], kind: Kind = "exact") -> dict[str, Any]:
        """Keep an array.

        Args:
            values: any numbers.
            kind: ``exact`` in double precision, or ``digits``: the three digits that are shown.

        Returns:
            What the page needs to find and read it.
        """
        return self.keep(encode(values, kind), values.shape, kind)

    def keep(self, text: str, shape: Sequence[int], kind: Kind) -> dict[str, Any]:
        """Keep an array that :func:`encode` made."""
        self.texts.append(text)
        return {"block": len(self.texts) - 1, "kind": kind, "shape": list(shape)}


def encode(values: NDArray[Any], kind: Kind) -> str:
    """Write an array as deflated bytes in base64, all first bytes first, then all second ones."""
    words = values.astype("<f8") if kind == "exact" else three_digits(values)
    planes = np.ascontiguousarray(words).reshape(-1, 1).view(np.uint8).T
    return deflated(planes.tobytes())


def three_digits(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Write every number as sign, three decimal digits and a power of ten, in 16 bits.

    What is shown in three digits is then what was measured to three digits, with no second
    rounding on the way. Numbers below 1e-20 become 0, numbers above 9.99e11 the largest there is.

    Args:
        values: any numbers.

    Returns:
        Words of 16 bits, little-endian: sign, 5 bits exponent (from 1e-22), 10 bits digits; digits
        1023 for NaN.
    """
    size = np.abs(np.asarray(values, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.floor(np.log10(size)) - (DIGITS - 1)
        # 1000 fits too, and is the same number as 100 at the next power
        digits = np.floor(size / 10.0**power + 0.5)
    most = _LEAST + (1 << _EXPONENT_BITS) - 1
    small = ~(power >= _LEAST)
    large = (power > most) | np.isinf(size)
    power = np.where(small, _LEAST, np.where(large, most, power))
    digits = np.where(small & ~large, 0, np.where(large, 10**DIGITS - 1, digits))
    digits = np.where(np.isnan(size), _NAN, digits)
    power = np.where(np.isnan(size), _LEAST, power)
    words = digits.astype(np.uint16) | ((power - _LEAST).astype(np.uint16) << _MANTISSA_BITS)
    negative = np.signbit(values) & (digits != 0) & ~np.isnan(size)
    return np.where(negative, words | _SIGN, words).astype("<u2")
