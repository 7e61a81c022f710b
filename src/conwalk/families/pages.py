"""The table of families as lines for a terminal and as a page of the documentation."""

from collections.abc import Iterator
from textwrap import wrap

from conwalk.families.family import OUTCOMES, Family
from conwalk.families.table import Table

_WIDTH = 80
_NAMED = 2  # spaces before a family

_HEAD = """\
# Families of transformers

Made by `make families`; do not edit. Every model type of transformers {version} was built once
from a tiny configuration with random weights and nonzero biases, run on random inputs, and each
place at which it attends was rebuilt as a connection walk and compared with what the model put
out, in whole, head by head, and as one walk. `tests/test_conformance.py` does it again, family by
family, and fails if an outcome changes. It also breaks each rebuild on purpose (value heads
swapped, W_O transposed, a bias dropped or added, heads grouped wrongly): each break must show.
Where a gate is read off the data it makes up for any order in which W_O reads its channels, so
that no rebuild can tell; there that order rests on the labelled passes that found it.

An outcome is about the architecture, in float32 and at that size. `conwalk verify MODEL` proves
the model you have. The command `conwalk models --families` prints this table.

| outcome | families | meaning |
|---|---:|---|
"""
_KINDS = """
`cross`: queries and keys are different sequences, so the walk is rectangular. `gated` and
`input-dependent map`: tokens scale their outputs or values, or values are read from a latent
stream, so that the head maps hold at the input they were read at. `leak`: rows sum to less than
1. `signed`: some weights are negative. `windows`: tokens walk within separate windows.
"""


def as_lines(table: Table) -> Iterator[str]:
    """The table in lines of at most 80 columns, grouped by outcome."""
    yield f"families of transformers {table.transformers}, each built tiny and rebuilt"
    for outcome, meaning in OUTCOMES.items():
        members = table.of(outcome)
        if not members:
            continue
        yield ""
        yield from wrap(f"{outcome} ({len(members)}): {meaning}", _WIDTH)
        if outcome == "no attention":
            yield from _paragraph(", ".join(f.name for f in members), _NAMED)
            continue
        for family in members:
            kinds = f" ({', '.join(family.kinds)})" if family.kinds else ""
            notes = f": {family.notes}" if family.notes else ""
            said = f"{family.name}{kinds}{notes}"
            yield from _paragraph(said, _NAMED + 4)
    yield ""
    yield ", ".join(f"{n} {outcome}" for outcome, n in table.counts.items())


def _paragraph(text: str, rest: int) -> list[str]:
    return wrap(text, _WIDTH, initial_indent=" " * _NAMED, subsequent_indent=" " * rest)


def as_markdown(table: Table) -> str:
    """The table as a page of the documentation."""
    counts = "".join(
        f"| {outcome} | {table.counts[outcome]} | {meaning} |\n"
        for outcome, meaning in OUTCOMES.items()
    )
    sections = "".join(
        _section(outcome, members) for outcome in OUTCOMES if (members := table.of(outcome))
    )
    return _HEAD.format(version=table.transformers) + counts + _KINDS + sections


def _section(outcome: str, members: tuple[Family, ...]) -> str:
    head = f"\n## {outcome.capitalize()}\n\n"
    if outcome == "no attention":
        return head + ", ".join(f"`{f.name}`" for f in members) + "\n"
    if outcome == "not built":
        rows = "".join(f"| `{f.name}` | {'; '.join(f.reasons)} |\n" for f in members)
        return f"{head}| family | why |\n|---|---|\n{rows}"
    rows = "".join(
        f"| `{f.name}` | {f.built} | {f.modality} | {', '.join(f.kinds)} | {f.notes} |\n"
        for f in members
    )
    return f"{head}| family | class | reads | kind | layers |\n|---|---|---|---|---|\n{rows}"
