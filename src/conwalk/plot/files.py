"""Figures on disk: the same figure is the same file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from conwalk.errors import OutputError
from conwalk.plot import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# what matplotlib would write of the day and of itself
_SILENT: dict[str, dict[str, Any]] = {
    ".pdf": {"CreationDate": None, "Creator": "conwalk", "Producer": None},
    ".svg": {"Date": None, "Creator": "conwalk"},
    ".png": {"Software": None},
}


def check_file(path: Path) -> None:
    """Refuse a kind of file that figures are not written as.

    Args:
        path: where a figure shall go.

    Raises:
        OutputError: its name ends in none of ``.pdf``, ``.svg``, ``.png``.
    """
    if path.suffix.lower() not in _SILENT:
        raise OutputError(f"{path} is no kind of figure: end it in {', '.join(_SILENT)}")


def write(figure: "Figure", path: Path | str) -> Path:
    """Write a figure; its kind is what the name ends in.

    Args:
        figure: of matplotlib.
        path: ``.pdf``, ``.svg`` or ``.png``; an older file is replaced.

    Returns:
        The path.

    Raises:
        OutputError: another kind, or a place that cannot be written.
    """
    import matplotlib as mpl

    path = Path(path)
    check_file(path)
    with mpl.rc_context(style.settings()):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, metadata=_SILENT[path.suffix.lower()])
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    return path
