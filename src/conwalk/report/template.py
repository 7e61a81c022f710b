"""Pages from templates: everything they need is inside them, nothing is fetched."""

import base64
import json
import re
import zlib
from functools import cache
from importlib import resources
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
"""What the page may load: only what is inside it."""

SCRIPTS = ("data.js", "digits.js", "export.js", "figure.js", "heatmap.js")
"""Scripts of every page with plots, in the order in which they need each other."""


def render(template: str, **values: Any) -> str:
    """Fill a template; whatever is not marked as markup is escaped.

    Args:
        template: its file name.
        values: what the template names; ``scripts`` are the names of the scripts to include.

    Returns:
        The page.
    """
    return (
        _environment()
        .get_template(template)
        .render(policy=POLICY, version=version("conwalk"), **values)
    )


def as_json(value: Any) -> Markup:
    """JSON that cannot end the script element it stands in, whatever text it holds."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in ("<", ">", "&", "\u2028", "\u2029"):
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


@cache
def plotly() -> Markup:
    """Plotly's code, deflated and in base64, as the page unpacks it."""
    from plotly.offline import get_plotlyjs

    return Markup(deflated(get_plotlyjs().encode()))


def deflated(content: bytes) -> str:
    """Bytes as a page carries them: zlib, then base64."""
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("conwalk.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["static"] = _static
    return environment


@cache
def _static(name: str) -> Markup:
    """One of our own scripts or style sheets, to stand inside its element."""
    text = resources.files("conwalk.report").joinpath("static", name).read_text(encoding="utf-8")
    if re.search(r"</(script|style)", text, re.IGNORECASE):
        raise ValueError(f"{name} would end the element it stands in")
    return Markup(text)
