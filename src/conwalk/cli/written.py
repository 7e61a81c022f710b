"""What a command leaves on disk, and what it says of it last."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

METRICS = "default,ledger,compatibility,inverse_consistency"
"""What a report has curves of; without one only ``default`` is measured unasked."""
NAME = "report.html"


def write(found: "xr.Dataset", folder: Path, *, report: bool) -> tuple[str, str]:
    """Write the dataset and, if asked, the report beside it.

    Returns:
        Two lines: where the results are, and what to open next.
    """
    from conwalk import results

    written = results.save(found, folder)
    if not report:
        return f"results: {written}", f"for a page of them: conwalk report {folder}"
    from conwalk import report as pages

    page = pages.write(found, folder / NAME)
    return f"results: {written}", f"open {page}"
