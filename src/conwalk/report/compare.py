"""Several results side by side: models, checkpoints, trained and fresh weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from conwalk import results
from conwalk.errors import SelectionError
from conwalk.report import catalogue, template
from conwalk.report.digits import MISSING, short
from conwalk.report.disk import replace
from conwalk.report.side_by_side import (
    Compared,
    Course,
    LeftOut,
    compared,
    facts,
    fresh_of,
    without_fresh,
)

MOST = 5
"""As many as there are colours that can be told apart."""
_QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_SCRIPTS = (*template.SCRIPTS, "compare.js")


def comparison(datasets: Sequence[xr.Dataset], names: Sequence[str] | None = None) -> str:
    """Write a page that sets results side by side over relative depth.

    Args:
        datasets: two to five results; of a single one that holds fresh weights, these and the
            model.
        names: of the models; from the results by default.

    Returns:
        HTML, complete in itself.

    Raises:
        SelectionError: too few or too many results, or nothing that can be compared.
    """
    datasets, titles = _sides(datasets, names)
    shown, left = compared(datasets)
    if not shown:
        reasons = "; ".join(f"{entry.name}: {entry.reason}" for entry in left[:3])
        raise SelectionError(f"nothing in these results can be compared ({reasons})")
    groups = _groups(shown)
    described = [facts(dataset) for dataset in datasets]
    return template.render(
        "compare.html.j2",
        models=titles,
        facts=[[key, *(f[key] for f in described)] for key in described[0]],
        notes=_notes(datasets),
        head=_head(titles),
        overview=[_row(q) for name in catalogue.OVERVIEW for q in shown if q.name == name],
        rows=[_row(q) for q in sorted(shown, key=lambda q: catalogue.title(q.name))],
        groups=groups,
        heads=_with_heads(shown, groups),
        left=_reasons(left),
        data=template.as_json(_data(titles, datasets, shown)),
        plotly=template.plotly(),
        scripts=_SCRIPTS,
    )


def write_comparison(
    datasets: Sequence[xr.Dataset], path: Path | str, names: Sequence[str] | None = None
) -> Path:
    """Write a comparison to disk.

    Args:
        datasets: see :func:`comparison`.
        path: the file.
        names: of the models.

    Returns:
        The path.

    Raises:
        SelectionError: see :func:`comparison`.
        OutputError: the file cannot be written.
    """
    return replace(Path(path), comparison(datasets, names))


def _sides(
    datasets: Sequence[xr.Dataset], names: Sequence[str] | None
) -> tuple[list[xr.Dataset], list[str]]:
    """What stands side by side, and distinct names for it."""
    sides = list(datasets)
    wanted = [results.model_name(d) for d in sides] if names is None else list(names)
    if len(sides) == 1 and (fresh := fresh_of(sides[0])) is not None:
        sides.append(fresh)
        wanted.append("fresh weights")
    if not 2 <= len(sides) <= MOST:
        raise SelectionError(
            f"{len(sides)} results cannot be compared: give 2 to {MOST}, or one that was analyzed "
            "with --fresh"
        )
    titles = [
        name if wanted.count(name) == 1 else f"{name} ({wanted[: i + 1].count(name)})"
        for i, name in enumerate(wanted)
    ]
    return [without_fresh(d) for d in sides], titles


def _notes(datasets: Sequence[xr.Dataset]) -> list[str]:
    """What a reader must know before believing a difference."""
    notes: list[str] = []
    texts = {tuple(str(p) for p in d["prompt"].values) for d in datasets}
    if len(texts) > 1:
        notes.append("The texts differ: a difference may be that of the texts.")
    if len({d.attrs.get("dtype") for d in datasets}) > 1:
        notes.append("The models ran in different dtypes.")
    if any(int(d.attrs.get("model_quantized", 0)) for d in datasets):
        notes.append("Some weights went through a quantisation; they are compared as they are.")
    return notes


def _groups(shown: Sequence[Compared]) -> list[dict[str, Any]]:
    """Quantities in the order of a report, and then the rest."""
    left = {quantity.name for quantity in shown}
    groups: list[dict[str, Any]] = []
    stability = tuple(
        f"{name}{suffix}" for name in catalogue.STABILITY for suffix, _ in catalogue.GRAPHS
    )
    (ledger, _), *_ = catalogue.LEDGERS
    ledgers = tuple(f"{ledger}{term}" for term in (*catalogue.TERMS, "total"))
    listed = [*((g.title, g.names) for g in catalogue.CURVES)]
    listed += [("Stability from layer to layer", stability), ("Energy ledger", ledgers)]
    for title, names in listed:
        found = [name for name in names if name in left]
        left -= set(found)
        if found:
            groups.append({"title": title, "names": found, "folded": False})
    if left:
        groups.append({"title": "Everything else", "names": sorted(left), "folded": True})
    return groups


def _with_heads(
    shown: Sequence[Compared], groups: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Quantities of heads: those a report shows, and the rest folded away."""
    having = {q.name for q in shown if any(c and c.heads is not None for c in q.courses)}
    found: list[dict[str, Any]] = []
    for folded, title in ((False, ""), (True, "Everything else")):
        of = [name for g in groups if g["folded"] is folded for name in g["names"]]
        names = [name for name in of if name in having]
        if names:
            found.append({"title": title, "names": names, "folded": folded})
    return found


def _head(titles: Sequence[str]) -> list[str]:
    columns = ["Quantity"]
    for title in titles:
        columns += [title, "chance"]
    if len(titles) == 2:
        return [*columns, "difference"]
    return [*columns, *(f"{title} − {titles[0]}" for title in titles[1:])]


def medians(quantity: Compared) -> list[tuple[float, float]]:
    """Take the median over layers of a quantity and of its null, for each of the results.

    Args:
        quantity: what is compared.

    Returns:
        Pairs; NaN where there is no number.
    """
    return [
        (np.nan, np.nan) if c is None else (_median(c.values), _median(c.chance))
        for c in quantity.courses
    ]


def _median(values: Any) -> float:
    known = np.asarray([] if values is None else values, dtype=float)
    known = known[np.isfinite(known)]
    return float(np.median(known)) if known.size else np.nan


def _row(quantity: Compared) -> list[str]:
    found = medians(quantity)
    title = catalogue.title(quantity.name)
    cells = [f"{title}, over chance" if quantity.relative else title]
    for value, chance in found:
        cells += [short(value), short(chance)]
    return [*cells, *(_signed(value - found[0][0]) for value, _ in found[1:])]


def _signed(difference: float) -> str:
    text = short(difference)
    return text if text == MISSING or not difference > 0 else f"+{text}"


def _reasons(left: Sequence[LeftOut]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for entry in left:
        reasons.setdefault(entry.reason, []).append(catalogue.title(entry.name))
    return reasons


def _data(
    titles: Sequence[str], datasets: Sequence[xr.Dataset], shown: Sequence[Compared]
) -> dict[str, Any]:
    return {
        "models": list(titles),
        "quantities": {q.name: _quantity(q, datasets) for q in shown},
    }


def _quantity(quantity: Compared, datasets: Sequence[xr.Dataset]) -> dict[str, Any]:
    holder = next(d for d, c in zip(datasets, quantity.courses, strict=True) if c is not None)
    attrs = holder[quantity.name].attrs
    null = results.null_of(holder, quantity.name)
    return {
        "title": catalogue.title(quantity.name),
        "symbol": str(attrs.get("symbol", "")),
        "unit": str(attrs.get("unit", "1")),
        "meaning": str(attrs.get("long_name", "")),
        "null": null.words if null else str(attrs.get("null", "")),
        "relative": quantity.relative,
        "better": str(attrs.get("better", "neither")),
        "courses": [None if c is None else _course(c) for c in quantity.courses],
    }


def _course(found: Course) -> dict[str, Any]:
    heads = np.asarray([] if found.heads is None else found.heads)
    heads = heads[np.isfinite(heads)]
    return {
        "depth": _plain(found.depth),
        "layers": list(found.layers),
        "values": _plain(found.values),
        "chance": _plain(found.chance),
        "sd": _plain(found.sd),
        "heads": _plain(np.quantile(heads, _QUANTILES)) if heads.size else None,
        "count": int(heads.size),
    }


def _plain(values: Any) -> list[float | None] | None:
    """Numbers for JSON, which knows no NaN."""
    if values is None:
        return None
    return [float(v) if np.isfinite(v) else None for v in values]
