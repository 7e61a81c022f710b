"""Results as tidy tables: one row a layer, a head, a token or an edge."""

import difflib
import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from conwalk import dims
from conwalk.errors import SelectionError
from conwalk.results.beside import siblings
from conwalk.results.edges import edge_table
from conwalk.results.labels import labels_of

_AVERAGED = {dims.PROMPT, dims.HEAD, dims.TOKEN}


def layer_table(dataset: xr.Dataset, names: Sequence[str] | None = None) -> pd.DataFrame:
    """One row a layer: every variable, mean over prompts and median over heads and tokens.

    Residuals and defects are the worst over prompts instead, as their attribute ``over_prompts``
    says. Variables with other axes, such as distances of layers, have no place in it.

    Args:
        dataset: results.
        names: variables; all by default. What stands beside them as their null comes along.

    Returns:
        A frame indexed by layer, with one column a variable.

    Raises:
        SelectionError: a variable that is not there, or has no layers.
    """
    return _reduced(dataset, (dims.LAYER,), names)


def head_table(dataset: xr.Dataset, names: Sequence[str] | None = None) -> pd.DataFrame:
    """One row a head of a layer: every variable with heads, mean over prompts.

    Args:
        dataset: results.
        names: variables; all by default. What stands beside them as their null comes along.

    Returns:
        A frame indexed by layer and head, with one column a variable.

    Raises:
        SelectionError: a variable that is not there, or has no heads.
    """
    return _reduced(dataset, (dims.LAYER, dims.HEAD), names)


def token_table(dataset: xr.Dataset, names: Sequence[str] | None = None) -> pd.DataFrame:
    """One row a token of a prompt at a layer: its text, and every variable with tokens.

    Args:
        dataset: results.
        names: variables; all by default.

    Returns:
        A frame indexed by prompt, layer and token; tokens beyond the end of what the queries of a
        layer read are left out.

    Raises:
        SelectionError: a variable that is not there, or has no tokens.
    """
    axes = (dims.PROMPT, dims.LAYER, dims.TOKEN)
    table = _reduced(dataset, axes, names, kept={dims.PROMPT, dims.TOKEN})
    # rows are in the order of the axes, whatever the labels of prompts are
    shape = tuple(dataset.sizes[axis] for axis in axes)
    text = np.full(shape, None, dtype=object)
    for prompt, layer in np.ndindex(*shape[:2]):
        labels = labels_of(dataset, prompt, layer)
        text[prompt, layer, : len(labels)] = labels
    table.insert(0, "text", text.ravel())
    return table.loc[table["text"].notna()]


def layer_records(dataset: xr.Dataset) -> list[dict[str, Any]]:
    """The layer table in the types of JSON; null where there is no number."""
    return json.loads(str(layer_table(dataset).reset_index().to_json(orient="records")))


def tidy(dataset: xr.Dataset, by: str, names: Sequence[str] | None = None) -> pd.DataFrame:
    """One of the tables, with what indexes it as columns.

    Args:
        dataset: results.
        by: ``layer``, ``head``, ``token`` or ``edge``.
        names: variables; all by default.

    Returns:
        The frame.

    Raises:
        SelectionError: no such table, no such variable, or nothing to fill it with.
    """
    if by not in TABLES:
        raise SelectionError(f"by {by!r}: there is no such table, choose from {', '.join(TABLES)}")
    return TABLES[by](dataset, names).reset_index()


def require(dataset: xr.Dataset, names: Sequence[str]) -> None:
    """Refuse names of variables that are not there.

    Args:
        dataset: results.
        names: variables.

    Raises:
        SelectionError: one is missing; the message names what comes close.
    """
    for name in names:
        if name not in dataset.data_vars:
            raise SelectionError(
                f"these results hold no {name!r}: {_instead(name, [*map(str, dataset.data_vars)])}"
            )


def _instead(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return "analyze with --metrics all measures everything, `conwalk metrics` lists it"


def _reduced(
    dataset: xr.Dataset,
    index: tuple[str, ...],
    names: Sequence[str] | None,
    kept: Collection[str] = (),
) -> pd.DataFrame:
    """The variables over some axes, averaged over the rest of prompts, heads and tokens."""
    needed = set(index) - {dims.PROMPT}
    chosen = _chosen(dataset, needed, names)
    columns: dict[str, pd.Series] = {}
    for name in chosen:
        value = _averaged(dataset[name], {*index, *kept})
        if set(value.dims) == set(index):
            columns[name] = value.transpose(*index).to_series()
        else:
            columns[name] = value.broadcast_like(dataset[chosen[0]]).transpose(*index).to_series()
    return pd.DataFrame(columns)


def _averaged(variable: xr.DataArray, kept: Collection[str]) -> xr.DataArray:
    inner = [d for d in (dims.HEAD, dims.TOKEN) if d in variable.dims and d not in kept]
    value = variable.median(inner, skipna=True) if inner else variable
    if dims.PROMPT in value.dims and dims.PROMPT not in kept:
        worst = variable.attrs.get("over_prompts") == "worst"
        value = value.max(dims.PROMPT) if worst else value.mean(dims.PROMPT)
    return value


def _chosen(dataset: xr.Dataset, needed: set[str], names: Sequence[str] | None) -> list[str]:
    """Names of the variables that have the axes of a table, and no others than can be averaged."""

    def fits(variable: xr.DataArray) -> bool:
        axes = set(variable.dims)
        return needed <= axes and axes - needed <= _AVERAGED

    if names is None:
        found = [str(n) for n, v in dataset.data_vars.items() if fits(v)]
        if not found:
            raise SelectionError(
                f"these results hold nothing for each {' and '.join(sorted(needed))}: choose "
                "metrics that do"
            )
        return found
    require(dataset, names)
    for name in names:
        if not fits(dataset[name]):
            raise SelectionError(
                f"{name} has the axes {', '.join(map(str, dataset[name].dims))}, not those of a "
                f"table by {' and '.join(sorted(needed))}: choose another --by"
            )
    wanted = [s for name in names for s in (name, *siblings(dataset, name))]
    return [n for n in dict.fromkeys(wanted) if fits(dataset[n])]


TABLES: dict[str, Callable[[xr.Dataset, Sequence[str] | None], pd.DataFrame]] = {
    "layer": layer_table,
    "head": head_table,
    "token": token_table,
    "edge": edge_table,
}
"""The tables by name."""
