"""Which fonts write the texts of figures, and what none of them can write."""

from functools import cache

# The first two come with matplotlib; of the others those are used that are installed.
_WANTED = (
    "DejaVu Sans",
    "STIXGeneral",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans",
    "Arial Unicode MS",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Emoji",
)
_BOX = "□"


@cache
def families() -> tuple[str, ...]:
    """Name the fonts to use, in order: for each character the first that has it."""
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    return (*(name for name in _WANTED if name in installed), "sans-serif")


@cache
def _characters() -> frozenset[int]:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    files = (font_manager.findfont(name) for name in families()[:-1])
    return frozenset(code for file in files for code in FT2Font(file).get_charmap())


def drawable(text: str) -> str:
    """Put a box where a character is that no font here has.

    Chinese, Japanese and Korean need a font such as Noto Sans CJK, which is used when it is
    installed.

    Args:
        text: any text.

    Returns:
        The same in as many characters, all of which can be drawn.
    """
    known = _characters()
    return "".join(c if ord(c) in known else _BOX for c in text)


def token_label(token: str, longest: int = 12) -> str:
    """Write a token where there is little room.

    Args:
        token: its text.
        longest: how many characters there is room for.

    Returns:
        The text without the white space around it, which shows where there is nothing else.
    """
    shown = token.strip() or token.replace("\n", "↵").replace("\t", "⇥").replace(" ", "·")
    cut = shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
    return drawable(cut)
