"""``conwalk.show``: results and walks in a notebook, or a file where there is none."""

import sys
import tempfile
from collections.abc import Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import xarray as xr

from conwalk.errors import InputError
from conwalk.report.compare import comparison
from conwalk.report.disk import replace
from conwalk.report.document import page

_MEGABYTES = 6.0


def show(shown: Any, *, height: int = 720, megabytes: float = _MEGABYTES) -> Path | None:
    """Show results, several of them, or anything that describes itself to notebooks.

    Results are shown as their report, several beside each other as a comparison, in a frame that
    holds all it needs: nothing is fetched, from no server and no CDN, and neither require.js nor a
    widget is needed. Walks, transports, metrics and models are shown as they describe themselves.
    Outside a notebook nothing is opened: the page is written, and the path printed.

    Args:
        shown: results of ``analyze``, a list of them, or an object with ``_repr_html_``.
        height: of the frame, in pixels.
        megabytes: size that maps of layers may fill a report up to; it is stored in the notebook.

    Returns:
        The path of the file outside a notebook; None inside one.

    Raises:
        InputError: there is nothing to show.
    """
    html, framed = _html(shown, megabytes)
    if not in_notebook():
        path = replace(Path(tempfile.mkdtemp(prefix="conwalk-")) / "show.html", html)
        sys.stdout.write(f"open {path}\n")
        return path
    display = import_module("IPython.display")
    display.display(display.HTML(frame(html, height) if framed else html))
    return None


def _html(shown: Any, megabytes: float) -> tuple[str, bool]:
    """What to show, and whether it is a page of its own."""
    if isinstance(shown, xr.Dataset):
        return page(shown, megabytes=megabytes), True
    if isinstance(shown, Sequence) and shown and all(isinstance(s, xr.Dataset) for s in shown):
        return comparison(shown), True
    describe = getattr(shown, "_repr_html_", None)
    if describe is None or isinstance(shown, type):
        raise InputError(
            f"a {type(shown).__name__} cannot be shown: give results of analyze, a walk, "
            "transports, a metric or a model"
        )
    return f'<meta charset="utf-8">{describe()}', False


def frame(html: str, height: int) -> str:
    """Put a page into a frame that keeps it apart from the notebook around it.

    Args:
        html: the page.
        height: of the frame, in pixels.

    Returns:
        HTML.
    """
    # without a base, links within the page would lead to the address of the notebook; it stands
    # before the page's own policy, which forbids any later one
    html = html.replace("<head>", '<head><base href="about:srcdoc">', 1)
    return (
        '<div><iframe sandbox="allow-scripts allow-downloads allow-popups" '
        f'title="conwalk" srcdoc="{escape(html)}" loading="lazy" '
        f'style="width:100%;height:{height}px;border:1px solid rgba(128,128,128,0.4)">'
        "</iframe></div>"
    )


def in_notebook() -> bool:
    """Say whether this runs in a kernel that shows HTML: Jupyter, VS Code, Colab."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None
