"""Numbers in pages: three digits, the same in Python, in blocks and in the browser."""

import base64
import math
import zlib
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conwalk.report.digits import counted, short
from conwalk.report.encoding import Blocks, three_digits


def decoded(word: int) -> float:
    """What static/data.js makes of a word, from its description alone."""
    digits = word & 0b11_1111_1111
    if digits == 1023:
        return math.nan
    size = float(f"{digits}e{(word >> 10 & 0b1_1111) - 22}")
    return -size if word >> 15 else size


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.96847, "0.968"), (-8.13, "−8.13"), (7.3e-7, "7.30e−7"), (0.0, "0"), (-0.0, "0"),
        (0.03125, "0.0313"), (1.0, "1.00"), (9.9951, "10.0"), (999.6, "1000"), (12345.6, "12300"),
        (0.001, "0.00100"), (0.00099949, "9.99e−4"), (0.00099951, "0.00100"), (999_600.0, "1.00e6"),
        (math.nan, "–"), (math.inf, "∞"), (-math.inf, "−∞"), (1.5e300, "1.50e300"),
    ],
)  # fmt: skip
def test_short(value: float, text: str) -> None:
    assert short(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=1e-12, max_value=1e12))
def test_short_is_the_number_to_three_digits(value: float) -> None:
    written = Decimal(short(value).replace("−", "-"))
    exact = Decimal(value)
    step = Decimal(1).scaleb(exact.adjusted() - 2)
    assert written == exact.quantize(step, ROUND_HALF_UP)


@given(st.integers(0, 2**32 - 1), st.integers(-19, 10))
def test_words_are_written_as_the_numbers_themselves(seed: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.uniform(1, 10, 50) * rng.choice([-1, 1], 50)
    values = (sizes * 10.0**power).astype(np.float32)
    words = three_digits(values)
    assert [short(decoded(w)) for w in words.tolist()] == [short(v) for v in values]


@given(st.integers(-(2**20), 2**20), st.integers(0, 12))
def test_halves_are_rounded_away_from_zero_in_words_too(numerator: int, power: int) -> None:
    value = numerator / 2**power
    (word,) = three_digits(np.array([value])).tolist()
    assert short(decoded(word)) == short(value)


def test_words_at_their_ends() -> None:
    values = np.array([math.nan, 0.0, 1e-30, 1e13, -math.inf, math.inf])
    found = [decoded(w) for w in three_digits(values).tolist()]
    assert math.isnan(found[0])
    assert found[1:] == [0.0, 0.0, 999e9, -999e9, 999e9]


def test_blocks_keep_numbers_exactly_in_planes_of_bytes() -> None:
    values = np.random.default_rng(0).normal(size=(3, 5))
    blocks = Blocks()
    blocks.add(np.zeros(2))
    ref = blocks.add(values)
    assert ref == {"block": 1, "kind": "exact", "shape": [3, 5]}
    raw = np.frombuffer(zlib.decompress(base64.b64decode(blocks.texts[1])), np.uint8)
    assert np.array_equal(
        np.ascontiguousarray(raw.reshape(8, 15).T).view("<f8").ravel(), values.ravel()
    )
    assert blocks.size == sum(len(text) for text in blocks.texts)


def test_counted() -> None:
    assert [counted(1, "head"), counted(0, "head"), counted(2, "layer was", "layers were")] == [
        "1 head", "0 heads", "2 layers were",
    ]  # fmt: skip
