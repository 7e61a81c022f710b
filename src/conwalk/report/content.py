"""Everything a report draws, as one JSON record and blocks of numbers."""

from typing import Any

import xarray as xr

from conwalk import results
from conwalk.report import catalogue
from conwalk.report.encoding import Blocks
from conwalk.report.maps import maps
from conwalk.report.quantities import SHOWN_PROMPTS, primary, record


def content(dataset: xr.Dataset, room: int) -> tuple[dict[str, Any], Blocks]:
    """Gather what the scripts of a report need.

    Args:
        dataset: results.
        room: characters that the numbers may take.

    Returns:
        The record, and the blocks it points at.
    """
    blocks = Blocks()
    names = primary(dataset)
    found = {
        "model": str(dataset.attrs.get("model", "")),
        "prompts": _prompts(dataset),
        "allPrompts": dataset.sizes["prompt"],
        "layers": _layers(dataset),
        "heads": [int(h) for h in dataset["head"].values] if "head" in dataset.coords else [],
        "variables": {name: record(dataset, name, blocks) for name in names},
        "curves": _curves(names),
        "stability": _stability(names),
        "ledgers": [
            {"prefix": prefix, "title": title}
            for prefix, title in catalogue.LEDGERS
            if f"{prefix}dirichlet" in names
        ],
        "terms": list(catalogue.TERMS),
        "headNames": [n for n in names if {"layer", "head"} <= set(dataset[n].dims)],
        "tokenNames": [n for n in names if "token" in dataset[n].dims],
        "pairNames": [n for n in names if "layer_to" in dataset[n].dims],
    }
    found["maps"] = maps(dataset, blocks, room)
    return found, blocks


def _prompts(dataset: xr.Dataset) -> list[dict[str, Any]]:
    """The name of each, the tokens of the text that is named first, and of any other by name."""
    places = range(dataset.sizes["layer"])
    read = {results.text_of(dataset, layer, axis) for layer in places for axis in ("query", "key")}
    main, others = "token_text", sorted(read - {"token_text"})
    return [
        {
            "name": str(name),
            "tokens": results.labels_in(dataset, prompt, main),
            "others": {text: results.labels_in(dataset, prompt, text) for text in others},
        }
        for prompt, name in enumerate(dataset["prompt"].values[:SHOWN_PROMPTS])
    ]


def _layers(dataset: xr.Dataset) -> list[dict[str, str]]:
    """What each is called, and which texts its queries and its keys are tokens of."""
    labels, stacks = results.layer_labels(dataset), results.stacks_of(dataset)

    def coordinate(name: str) -> list[str]:
        values = dataset[name].values if name in dataset.coords else [""] * len(labels)
        return [str(value) for value in values]

    rows = zip(labels, stacks, coordinate("kind"), coordinate("verdict"), strict=True)
    return [
        {
            "label": label, "stack": stack, "kind": kind, "verdict": verdict,
            "query": results.text_of(dataset, place, "query"),
            "key": results.text_of(dataset, place, "key"),
        }
        for place, (label, stack, kind, verdict) in enumerate(rows)
    ]  # fmt: skip


def _curves(names: list[str]) -> list[dict[str, Any]]:
    shown = [
        {"key": curves.key, "names": [n for n in curves.names if n in names]}
        for curves in catalogue.CURVES
    ]
    taken = {n for group in shown for n in group["names"]}
    rest = [n for n in names if n not in taken and not n.startswith(("depth_", "token_"))]
    return [*shown, {"key": "rest", "names": [n for n in rest if not n.endswith("_matrix")]}]


def _stability(names: list[str]) -> list[dict[str, Any]]:
    """By distance, its variables for every graph, plain and relative to even attention."""
    found: list[dict[str, Any]] = []
    for base in catalogue.STABILITY:
        forms = {
            form: [name if name in names else None for name in _graphs(f"{base}{form}")]
            for form in ("", "_relative")
        }
        if any(forms[""]):
            found.append(
                {"title": catalogue.title(base), "plain": forms[""], "relative": forms["_relative"]}
            )
    return found


def _graphs(base: str) -> list[str]:
    return [f"{base}{suffix}" for suffix, _ in catalogue.GRAPHS]
