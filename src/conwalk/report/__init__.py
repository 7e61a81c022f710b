"""Pages for people to look at: one file each, complete in itself. Reads datasets only."""

from conwalk.report.compare import comparison, write_comparison
from conwalk.report.disk import write
from conwalk.report.document import page
from conwalk.report.notebook import show
from conwalk.report.summary import Sentence, sentences

__all__ = [
    "Sentence",
    "comparison",
    "page",
    "sentences",
    "show",
    "write",
    "write_comparison",
]
