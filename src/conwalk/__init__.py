"""The attention of any trained transformer as what it exactly is: a connection walk.

Jobs: :func:`load`, :func:`analyze`, :func:`verify`, :func:`walk`, :func:`capture_layer`.
Objects to compute with: :class:`ConnectionWalk`, :class:`ConnectionLaplacian`,
:class:`HeadTransports`. Every error is a :class:`ConwalkError`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from conwalk.errors import (
    AbsentEdgeError,
    CaptureError,
    ConwalkError,
    ExactnessError,
    InputError,
    OutputError,
    SelectionError,
    ShapeError,
    SourceError,
    TextError,
)

if TYPE_CHECKING:
    from conwalk import plot
    from conwalk.connection import ConnectionLaplacian, ConnectionWalk, HeadTransports
    from conwalk.models import Model, load
    from conwalk.pipeline import analyze, capture_layer, verify, walk
    from conwalk.report import show
    from conwalk.results import read

__version__ = "0.1.0"

# what takes seconds to import is imported when it is first asked for
_HOMES = {
    "ConnectionLaplacian": "conwalk.connection",
    "ConnectionWalk": "conwalk.connection",
    "HeadTransports": "conwalk.connection",
    "Model": "conwalk.models",
    "analyze": "conwalk.pipeline",
    "capture_layer": "conwalk.pipeline",
    "load": "conwalk.models",
    "read": "conwalk.results",
    "show": "conwalk.report",
    "verify": "conwalk.pipeline",
    "walk": "conwalk.pipeline",
}

__all__ = [
    "AbsentEdgeError",
    "CaptureError",
    "ConnectionLaplacian",
    "ConnectionWalk",
    "ConwalkError",
    "ExactnessError",
    "HeadTransports",
    "InputError",
    "Model",
    "OutputError",
    "SelectionError",
    "ShapeError",
    "SourceError",
    "TextError",
    "analyze",
    "capture_layer",
    "load",
    "plot",
    "read",
    "show",
    "verify",
    "walk",
]


def __getattr__(name: str) -> Any:
    if name == "plot":
        return import_module("conwalk.plot")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'conwalk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "plot"})
