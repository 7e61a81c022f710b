"""Numbers as the page writes them; static/digits.js writes them the same way."""

import math
from decimal import ROUND_HALF_UP, Decimal
from typing import SupportsFloat

DIGITS = 3
MISSING = "–"
_LARGE, _SMALL = Decimal("1e6"), Decimal("1e-3")


def short(value: SupportsFloat) -> str:
    """Write a number in three significant digits, halves rounded away from zero.

    Args:
        value: any number.

    Returns:
        ``0.968``, ``−8.13``, ``7.30e−7``; a dash for NaN.
    """
    number = float(value)
    if math.isnan(number):
        return MISSING
    sign = "−" if number < 0 else ""
    size = abs(number)
    if math.isinf(size):
        return sign + "∞"
    return sign + _digits(size) if size else "0"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Count things.

    Args:
        number: of things.
        one: what one of them is called.
        many: what several are called; ``one`` and an s by default.

    Returns:
        ``1 layer``, ``30 layers``.
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def _digits(size: float) -> str:
    exact = Decimal(size)
    step = Decimal(1).scaleb(exact.adjusted() - DIGITS + 1)
    rounded = exact.quantize(step, rounding=ROUND_HALF_UP)
    if rounded.adjusted() > exact.adjusted():
        rounded = rounded.quantize(step.scaleb(1))
    if _SMALL <= rounded < _LARGE:
        return f"{rounded:f}"
    exponent = rounded.adjusted()
    mantissa = rounded.scaleb(-exponent)
    return f"{mantissa:f}e{'−' if exponent < 0 else ''}{abs(exponent)}"
