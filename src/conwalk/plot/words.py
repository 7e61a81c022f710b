"""What is written beside curves and maps: symbols, units, meanings, from the attributes."""

import re
import textwrap

import xarray as xr

from conwalk.plot.fonts import drawable

_LINE = 86
_LABEL = 28


def axis_label(variable: xr.DataArray) -> str:
    """Write the symbol of a quantity and its unit, if it has one; the name for a long formula.

    Args:
        variable: of results.

    Returns:
        Such as ``−Σ_j A_ij log A_ij (nat)``.
    """
    symbol = str(variable.attrs.get("symbol", variable.name))
    unit = str(variable.attrs.get("unit", "1"))
    if len(symbol) > _LABEL:
        symbol = short_symbol(variable)
    return drawable(symbol if unit == "1" else f"{symbol} ({unit})")


def short_symbol(variable: xr.DataArray) -> str:
    """Write the letter a quantity has in formulas, or else its name.

    Args:
        variable: of results.

    Returns:
        ``κ`` of ``κ = ‖C‖² / ‖N‖²``.
    """
    left, equals, _ = str(variable.attrs.get("symbol", "")).partition(" = ")
    return drawable(left if equals else str(variable.name).replace("_", " "))


def title(variable: xr.DataArray, *more: str, line: int = _LINE) -> str:
    """Say what a figure shows: its meaning, and in a line of its own where that was.

    Args:
        variable: of results.
        more: what else belongs there: the layer, the prompt.
        line: characters that fit in a line.

    Returns:
        The name of the quantity, its meaning, and the rest.
    """
    meaning = re.split(r"; ", str(variable.attrs.get("long_name", "")))[0]
    name = str(variable.name).replace("_", " ")
    text = f"{name}: {meaning}" if meaning else name
    where = ", ".join(m for m in more if m)
    return "\n".join(wrapped(t, line) for t in (text, where) if t)


def wrapped(text: str, line: int = _LINE) -> str:
    """Break a text into lines.

    Args:
        text: any text.
        line: characters that fit in a line.

    Returns:
        The same with line breaks, in characters that can be drawn.
    """
    lines = textwrap.wrap(text, line, break_long_words=False)
    return "\n".join(drawable(part) for part in lines)


def scope(variable: xr.DataArray) -> str:
    """Say over what a quantity was summarised to one number a layer.

    Args:
        variable: of results.

    Returns:
        Such as ``median over heads, mean over prompts``; empty where there was nothing to do.
    """
    inner = [d for d in ("head", "token") if d in variable.dims]
    parts = [f"median over {' and '.join(f'{d}s' for d in inner)}"] if inner else []
    if variable.sizes.get("prompt", 1) > 1:
        worst = variable.attrs.get("over_prompts") == "worst"
        parts.append("worst of the prompts" if worst else "mean over prompts")
    return ", ".join(parts)
