"""The table of families, read from the data file beside this module and written to it."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from conwalk.families.family import OUTCOMES, Family

_FILE = "families.json"
_LISTS = ("inputs", "kinds", "reasons")


@dataclass(frozen=True)
class Table:
    """What became of every family.

    Attributes:
        transformers: version whose families these are.
        families: in alphabetical order.
    """

    transformers: str
    families: tuple[Family, ...]

    @cached_property
    def counts(self) -> dict[str, int]:
        """Families of each outcome."""
        found = Counter(f.outcome for f in self.families)
        return {outcome: found[outcome] for outcome in OUTCOMES}

    def of(self, outcome: str) -> tuple[Family, ...]:
        """The families of one outcome."""
        return tuple(f for f in self.families if f.outcome == outcome)


def load() -> Table:
    """The table that comes with conwalk."""
    file = resources.files("conwalk.families") / _FILE
    held = json.loads(file.read_text(encoding="utf-8"))
    return Table(held["transformers"], tuple(_family(row) for row in held["families"]))


def as_json(table: Table) -> str:
    """The table as the data file holds it: one family a line."""
    rows = ",\n".join(json.dumps(as_row(f), ensure_ascii=False) for f in table.families)
    return f'{{"transformers": {json.dumps(table.transformers)}, "families": [\n{rows}\n]}}\n'


def write(version: str, families: Sequence[Family], path: Path) -> None:
    """Write a table to a data file.

    Args:
        version: of transformers.
        families: in any order.
        path: where to.
    """
    ordered = tuple(sorted(families, key=lambda f: f.name))
    path.write_text(as_json(Table(version, ordered)), encoding="utf-8")


def as_row(family: Family) -> dict[str, Any]:
    """A family in the types of JSON, without what is empty."""
    return {k: v for k, v in asdict(family).items() if v or k == "name"}


def _family(row: dict[str, Any]) -> Family:
    lists: dict[str, Any] = {k: tuple(row[k]) for k in _LISTS if k in row}
    return Family(**(row | lists))
