"""What becomes of each family of transformers, as a conformance run found it.

The table is data: it was made by building every family once, tiny and random, and rebuilding
each of its layers. Reading it needs neither torch nor transformers.
"""

from conwalk.families.family import OUTCOMES, Family
from conwalk.families.pages import as_lines, as_markdown
from conwalk.families.table import Table, load

__all__ = ["OUTCOMES", "Family", "Table", "as_lines", "as_markdown", "load"]
