"""The quantities of some results as the page knows them: words, numbers, and what chance gives."""

import json
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from conwalk import results
from conwalk.report.catalogue import title
from conwalk.report.encoding import Blocks, Kind
from conwalk.report.readings import over_prompts

SHOWN_PROMPTS = 8
"""Prompts that can be chosen one by one; the mean is over all of them."""

_AXES = ("prompt", "layer", "head", "token", "layer_to")
_EXACT = {"prompt", "layer", "head"}
_MAPS = {"operator_distance"}
"""Has the axes of a quantity, and is drawn as a map of its own."""


def primary(dataset: xr.Dataset) -> list[str]:
    """Name the quantities that are measured, without what only stands beside another.

    Args:
        dataset: results.

    Returns:
        Variables with a layer axis and none that the page does not know, in alphabetical order.
    """
    names = sorted(str(n) for n, v in dataset.data_vars.items() if "layer" in v.dims)
    beside = {other for name in names for other in results.siblings(dataset, name)}
    return [
        name
        for name in names
        if name not in beside and set(dataset[name].dims) <= set(_AXES) and name not in _MAPS
    ]


def record(dataset: xr.Dataset, name: str, blocks: Blocks) -> dict[str, Any]:
    """Describe one quantity, and put its numbers into blocks.

    Args:
        dataset: results.
        name: a variable in them.
        blocks: of the page.

    Returns:
        Words for a reader, where its numbers are, and its null. Numbers with a prompt axis begin
        with those over all prompts: the mean, or the worst where the attributes say so.
    """
    attrs = dataset[name].attrs
    return {
        "title": title(name),
        "symbol": str(attrs.get("symbol", "")),
        "unit": str(attrs.get("unit", "1")),
        "meaning": str(attrs.get("long_name", "")),
        "section": str(attrs.get("section", "")),
        "better": str(attrs.get("better", "neither")),
        "range": bounds(attrs),
        "worst": attrs.get("over_prompts") == "worst",
        "comparable": bool(int(attrs.get("comparable_across_length", 1))),
        "numbers": numbers(dataset[name], blocks),
        "null": _null(dataset, name, blocks),
    }


def bounds(attrs: dict[Any, Any]) -> list[float | None]:
    """The smallest and the largest value a quantity can take; None where there is none."""
    return json.loads(attrs["range"]) if "range" in attrs else [None, None]


def numbers(variable: xr.DataArray, blocks: Blocks) -> dict[str, Any]:
    """Put the numbers of a variable into a block, with its axes in the page's order."""
    axes = [axis for axis in _AXES if axis in variable.dims]
    kind: Kind = "exact" if set(axes) <= _EXACT else "digits"
    values = with_overall(variable.transpose(*axes)) if "prompt" in axes else variable.to_numpy()
    return {**blocks.add(values, kind), "axes": axes, "line": _line(variable)}


def _line(variable: xr.DataArray) -> list[float | None] | None:
    """One number a layer, as the table of the layers has them; None for distances of layers."""
    if "layer_to" in variable.dims:
        return None
    values = over_prompts(variable, over_heads=True).to_numpy().astype(float)
    return [float(v) if np.isfinite(v) else None for v in values]


def with_overall(variable: xr.DataArray) -> NDArray[Any]:
    """Put what holds over all prompts before what holds for each that can be chosen.

    Args:
        variable: its first axis the prompts.

    Returns:
        One row more than prompts that can be chosen.
    """
    over = over_prompts(variable).to_numpy()
    return np.concatenate([over[None], variable.to_numpy()[:SHOWN_PROMPTS]])


def _null(dataset: xr.Dataset, name: str, blocks: Blocks) -> dict[str, Any] | None:
    null = results.null_of(dataset, name)
    stated = str(dataset[name].attrs.get("null", ""))
    if null is None:
        return {"words": stated} if stated and stated not in dataset else None
    found: dict[str, Any] = {"words": null.words}
    if null.constant is not None:
        found["constant"] = null.constant
    beside = results.siblings(dataset, name)
    variables = {
        "mean": null.mean,
        "sd": null.sd,
        "fresh": null.fresh,
        "z": _with_suffix(name, "z", beside),
        "q": _with_suffix(name, "q", beside),
    }
    for part, variable in variables.items():
        if variable is not None and set(dataset[variable].dims) <= _EXACT:
            found[part] = numbers(dataset[variable], blocks)
    return found


def _with_suffix(name: str, suffix: str, beside: list[str]) -> str | None:
    """Of depth_tv_no_sink the z is depth_tv_z_no_sink: the suffix stands before the graph."""
    return next((n for n in beside if n.replace(f"_{suffix}", "", 1) == name), None)
