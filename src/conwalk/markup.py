"""Small pieces of HTML for notebooks, written by hand: escaped, without scripts or style sheets."""

import base64
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape

_CELL = "padding:0.15em 0.8em 0.15em 0;text-align:left;border:0;background:none"
_HEAD = f"{_CELL};opacity:0.65;font-weight:normal"
# white to dark blue, as figures draw weights
_LIGHT, _DARK = (247, 251, 255), (8, 48, 107)


def card(title: str, facts: Mapping[str, object], *more: str) -> str:
    """Write a title and facts under it.

    Args:
        title: what it is.
        facts: words by what they are of; written as text.
        more: HTML to stand below.

    Returns:
        HTML.
    """
    rows = "".join(
        f'<tr><th scope="row" style="{_HEAD}">{escape(str(name))}</th>'
        f'<td style="{_CELL}">{escape(str(value))}</td></tr>'
        for name, value in facts.items()
    )
    table = f'<table style="border-collapse:collapse">{rows}</table>' if rows else ""
    return f"<div><strong>{escape(title)}</strong>{table}{''.join(more)}</div>"


def grid(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table.

    Args:
        head: names of the columns.
        rows: their cells; written as text.

    Returns:
        HTML.
    """
    top = "".join(f'<th scope="col" style="{_HEAD}">{escape(name)}</th>' for name in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escape(str(c))}</td>' for c in row) + "</tr>"
        for row in rows
    )
    return (
        f'<table style="border-collapse:collapse"><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def picture(rows: Sequence[Sequence[float]], words: str, *, size: int = 240) -> str:
    """Draw a matrix of shares from 0 (white) to 1 (dark blue), a pixel a number.

    Args:
        rows: from the top.
        words: what it shows, for those who do not see it.
        size: of the longer side on the screen, in pixels.

    Returns:
        HTML with the picture inside it.
    """
    high, wide = len(rows), len(rows[0]) if rows else 0
    data = base64.b64encode(png(rows)).decode("ascii")
    scale = size / max(high, wide, 1)
    return (
        f'<img alt="{escape(words)}" title="{escape(words)}" src="data:image/png;base64,{data}" '
        f'width="{round(wide * scale)}" height="{round(high * scale)}" '
        'style="image-rendering:pixelated;border:1px solid rgba(128,128,128,0.4)">'
    )


def png(rows: Sequence[Sequence[float]]) -> bytes:
    """Write a matrix of shares as an image with a palette.

    Args:
        rows: from the top; numbers beyond 0 and 1 are cut.

    Returns:
        A PNG file.
    """
    high, wide = len(rows), len(rows[0]) if rows else 0
    palette = bytes(
        round(a + (b - a) * level / 255)
        for level in range(256)
        for a, b in zip(_LIGHT, _DARK, strict=True)
    )
    lines = b"".join(
        b"\0" + bytes(round(255 * min(max(value, 0.0), 1.0)) for value in row) for row in rows
    )
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", wide, high, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette),
            _chunk(b"IDAT", zlib.compress(lines, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
