"""The exceptions conwalk raises, as one tree.

    ConwalkError
    ├── InputError            what was handed over cannot be used (command line: exit 2)
    │   ├── SourceError       a model that cannot be found, read or loaded
    │   ├── TextError         a text or token sequence that cannot be analysed
    │   ├── SelectionError    a layer, head, metric or option that does not exist
    │   ├── ShapeError        arrays whose shapes, dtypes or values do not fit together
    │   └── OutputError       a place that cannot be written
    ├── AbsentEdgeError       the transport of an edge that the walk does not have
    └── CaptureError          a forward pass that cannot be watched
        └── ExactnessError    a layer that was not rebuilt from its parts

Messages are one line and say what was given, what is wrong and what to do.
"""


class ConwalkError(Exception):
    """Base of every exception that conwalk raises on purpose."""


class InputError(ConwalkError, ValueError):
    """What was handed over cannot be used."""


class SourceError(InputError):
    """A model that cannot be found, read or loaded."""


class TextError(InputError):
    """A text or token sequence that cannot be analysed."""


class SelectionError(InputError):
    """A layer, head, metric or option that does not exist."""


class ShapeError(InputError):
    """Arrays whose shapes, dtypes or values do not fit together."""


class OutputError(InputError):
    """A place that cannot be written."""


class AbsentEdgeError(ConwalkError, LookupError):
    """The transport of an edge that the walk does not have (its weight is 0)."""


class CaptureError(ConwalkError, RuntimeError):
    """A forward pass that cannot be watched."""


class ExactnessError(CaptureError):
    """A layer whose output was not rebuilt from its parts."""
