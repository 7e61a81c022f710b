"""What stands out in some results, in sentences; each holds where its numbers do."""

import re
from collections.abc import Iterator

import numpy as np
import xarray as xr

from conwalk import results
from conwalk.report.catalogue import title
from conwalk.report.digits import counted, short
from conwalk.report.readings import Reading, chance, over_prompts, read_layers

_LEVEL = 0.05
"""Rate of false discoveries at which a head is said to differ from its null."""
_TERMS = {
    "energy_dirichlet": "differences between tokens and what they receive",
    "energy_stationarity": "the stationarity defect",
    "energy_compatibility": "the metric-compatibility defect",
    "energy_leak": "leaking rows",
}


def conditions(dataset: xr.Dataset) -> Iterator[str]:
    """Each graded condition over the whole depth, beside chance."""
    sums = read_layers(dataset, "row_sum_defect")
    if sums is not None:
        yield f"Rows of attention sum to 1 within {short(sums.highest.value)}."
    for name in ("curl_share", "metric_defect", "inverse_defect"):
        reading = read_layers(dataset, name)
        if reading is not None:
            yield f"{_named(dataset, name)}: {_over_layers(reading)}{_beside(dataset, name)}."


def findings(dataset: xr.Dataset) -> Iterator[str]:
    """What a reader should look at first."""
    yield from _isometry(dataset)
    yield from _heads(dataset)
    yield from _ranks(dataset)
    yield from _sinks(dataset)
    yield from _steps(dataset)
    yield from _holonomy(dataset)
    yield from _ledger(dataset)


def _named(dataset: xr.Dataset, name: str) -> str:
    symbol = str(dataset[name].attrs.get("symbol", "")).split(" = ")[0]
    return f"{title(name)} {symbol}" if 0 < len(symbol) <= 2 else title(name)


def _over_layers(reading: Reading) -> str:
    low, high = reading.lowest, reading.highest
    if low.layer == high.layer:
        return f"{short(low.value)} at layer {low.layer}"
    return (
        f"median {short(reading.median)} over layers, from {short(low.value)} (layer {low.layer}) "
        f"to {short(high.value)} (layer {high.layer})"
    )


def _beside(dataset: xr.Dataset, name: str) -> str:
    expected = chance(dataset, name)
    null = results.null_of(dataset, name)
    if expected is None or null is None:
        return ""
    words = re.sub(r"^\S+ for ", "", null.words)
    return f"; chance {short(expected)} ({words})"


def _isometry(dataset: xr.Dataset) -> Iterator[str]:
    rho = read_layers(dataset, "rho")
    if rho is None:
        return
    yield f"Isometry score ρ of the heads: {_over_layers(rho)}{_beside(dataset, 'rho')}."
    if "rho_z" not in dataset or "rho_q" not in dataset:
        return
    z, q = (over_prompts(dataset[name]).to_numpy() for name in ("rho_z", "rho_q"))
    tested = np.isfinite(z) & np.isfinite(q)
    clear = tested & (q < _LEVEL)
    less, more = (int((clear & side).sum()) for side in (z < 0, z > 0))
    yield (
        f"{less} of {counted(int(tested.sum()), 'head')} can be told to be less isometric than "
        f"chance and {more} to be more, at a false discovery rate of {_LEVEL}."
    )


def _heads(dataset: xr.Dataset) -> Iterator[str]:
    if "rho_z" not in dataset or not np.isfinite(dataset["rho_z"]).any():
        return
    z = over_prompts(dataset["rho_z"]).transpose("layer", "head").to_numpy()
    rho = over_prompts(dataset["rho"]).transpose("layer", "head").to_numpy()
    labels, heads = results.layer_labels(dataset), dataset["head"].values
    told = [
        ("furthest below its null", int(np.nanargmin(z))),
        ("furthest above", int(np.nanargmax(z))),
    ]
    parts: list[str] = []
    for words, flat in told:
        layer, head = divmod(flat, z.shape[1])
        if (z[layer, head] < 0) == words.endswith("null"):
            parts.append(
                f"{words} is head {heads[head]} of layer {labels[layer]} "
                f"(ρ {short(rho[layer, head])}, z {short(z[layer, head])})"
            )
    if parts:
        text = "; ".join(parts)
        yield f"{text[:1].upper()}{text[1:]}."


def _ranks(dataset: xr.Dataset) -> Iterator[str]:
    rank = read_layers(dataset, "edge_rank")
    if rank is not None:
        beside = _beside(dataset, "edge_rank")
        yield f"Effective rank of an edge's transport: {_over_layers(rank)}{beside}."


def _sinks(dataset: xr.Dataset) -> Iterator[str]:
    sinks = read_layers(dataset, "sink_fraction")
    if sinks is None:
        return
    share, most = float(np.nanmean(sinks.values)), sinks.highest
    where = f", most of all in layer {most.layer} ({short(100 * most.value)} %)" if share else ""
    yield (
        f"{short(100 * share)} % of the heads give more than 0.3 of their attention to the first "
        f"token{where}."
    )


def _steps(dataset: xr.Dataset) -> Iterator[str]:
    steps = read_layers(dataset, "depth_tv")
    if steps is None:
        return
    largest = steps.highest
    text = (
        f"From one layer to the next the walk moves by {short(steps.median)} of total variation, "
        f"most after layer {largest.layer} ({short(largest.value)})"
    )
    without = read_layers(dataset, "depth_tv_no_sink")
    if without is not None:
        text += f"; with the first token's column removed, by {short(without.median)}"
    expected = chance(dataset, "depth_tv")
    if expected is not None:
        text += f"; two layers drawn at random differ by {short(expected)}"
    yield f"{text}."


def _holonomy(dataset: xr.Dataset) -> Iterator[str]:
    found = read_layers(dataset, "holonomy")
    if found is not None:
        yield (
            f"Two ways around a triangle of tokens disagree by {_over_layers(found)}"
            f"{_beside(dataset, 'holonomy')}; 0 is flat."
        )


def _ledger(dataset: xr.Dataset) -> Iterator[str]:
    readings = {name: read_layers(dataset, name) for name in _TERMS}
    parts = {name: reading.median for name, reading in readings.items() if reading is not None}
    total = read_layers(dataset, "energy_total")
    if total is None or not parts:
        return
    largest = max(parts, key=lambda name: abs(parts[name]))
    yield (
        f"Of the energy of the generator, {short(total.median)} of the tokens' own (median over "
        f"layers), the largest part is {_TERMS[largest]}: {short(parts[largest])}."
    )
