"""What a command leaves on disk, and what it says of it last."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

METRICS = "default,ledger,compatibility,inverse_consistency"
"""What a report has curves of; without one only ``default`` is measured unasked."""
NAME = "report.html"


def write(found: "xr.Dataset", folder: Path, *, report: bool) -> str:
    """Write the dataset and, if asked, the report beside it.

    Returns:
        One line that says what to open next.
    """
    from conwalk import results

    written = results.save(found, folder)
    if not report:
        return f"results: {written}; conwalk report {folder} makes a page"
    from conwalk import report as pages

    page = pages.write(found, folder / NAME)
    return f"results: {written}; open {page}"
