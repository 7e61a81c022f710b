"""The tables that stand in a report as text, without any script."""

import json
from typing import Any, NamedTuple

import xarray as xr

from conwalk import results
from conwalk.report.catalogue import OVERVIEW, title
from conwalk.report.digits import MISSING, short
from conwalk.report.quantities import bounds
from conwalk.report.readings import chance, read_layers

Rows = list[list[str]]


class Definition(NamedTuple):
    """How a quantity is defined, as a reader looks it up."""

    name: str
    title: str
    symbol: str
    meaning: str
    range: str
    unit: str
    better: str
    null: str
    section: str


def overview(dataset: xr.Dataset) -> Rows:
    """The quantities at a glance: title, symbol, median, lowest and highest layer, chance."""
    rows: Rows = []
    for name in OVERVIEW:
        reading = read_layers(dataset, name)
        if reading is None:
            continue
        low, high = reading.lowest, reading.highest
        expected = chance(dataset, name)
        rows.append(
            [
                title(name),
                short(reading.median),
                f"{short(low.value)} (layer {low.layer})",
                f"{short(high.value)} (layer {high.layer})",
                MISSING if expected is None else short(expected),
            ]
        )
    return rows


def layers(dataset: xr.Dataset) -> tuple[list[str], Rows]:
    """The same layer by layer: the head of the table, and its rows."""
    readings = {name: read_layers(dataset, name) for name in OVERVIEW}
    known = {name: reading for name, reading in readings.items() if reading is not None}
    rows = [
        [label, *(short(reading.values[place]) for reading in known.values())]
        for place, label in enumerate(results.layer_labels(dataset))
    ]
    return ["Layer", *(title(name) for name in known)], rows


def definitions(dataset: xr.Dataset) -> list[Definition]:
    """Every variable that says what it is, by name."""
    return [
        _definition(str(name), variable.attrs)
        for name, variable in sorted(dataset.data_vars.items(), key=lambda item: str(item[0]))
        if variable.attrs.get("long_name") and variable.attrs.get("section")
    ]


def provenance(dataset: xr.Dataset) -> Rows:
    """What it takes to get the same numbers again."""
    names = (
        "command", "model", "model_class", "model_kind", "model_notes", "weights_hash", "dtype",
        "device", "seed", "created", "conwalk", "torch", "transformers", "python",
    )  # fmt: skip
    return [[n.replace("_", " "), _plain(dataset.attrs[n])] for n in names if n in dataset.attrs]


def _definition(name: str, attrs: dict[Any, Any]) -> Definition:
    low, high = bounds(attrs)
    return Definition(
        name,
        title(name),
        str(attrs.get("symbol", "")),
        str(attrs["long_name"]),
        f"{_bound(low, '−∞')} to {_bound(high, '∞')}" if (low, high) != (None, None) else "any",
        "" if attrs.get("unit", "1") == "1" else str(attrs["unit"]),
        {"lower": "lower", "higher": "higher"}.get(str(attrs.get("better")), ""),
        str(attrs.get("null", "")),
        str(attrs["section"]),
    )


def _bound(value: float | None, infinite: str) -> str:
    return infinite if value is None else f"{value:g}".replace("-", "−")


def _plain(value: Any) -> str:
    text = str(value)
    if text.startswith("["):
        return "; ".join(map(str, json.loads(text)))
    return text
