"""Every edge of every walk as one long table."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from conwalk import dims
from conwalk.errors import SelectionError
from conwalk.results.labels import labels_of

WEIGHT = "walk_matrix"
COLUMNS = {WEIGHT: "weight", "edge_norm": "norm", "edge_effective_rank": "r_eff"}


def edge_table(dataset: xr.Dataset, names: Sequence[str] | None = None) -> pd.DataFrame:
    """One row an edge: who reads from whom, with what weight, norm and effective rank.

    An edge of weight 0 is absent and has no row. Where the maps were pooled, because the text was
    long, a row is a cell of ``tokens_per_cell`` by as many tokens, named by its first ones.

    Args:
        dataset: results with walk matrices.
        names: some of ``walk_matrix``, ``edge_norm``, ``edge_effective_rank``; all by default.

    Returns:
        A frame indexed by prompt, layer, query and key, with the texts of both tokens and the
        columns ``weight`` (P_ij), ``norm`` (‖T_ij‖) and ``r_eff``; Theory §1 and §3.

    Raises:
        SelectionError: there are no walk matrices, or a name is none of the three.
    """
    if WEIGHT not in dataset:
        raise SelectionError(
            "these results hold no edges: analyze again, without --no-details if that was given"
        )
    unknown = sorted({*(names or ())} - set(COLUMNS))
    if unknown:
        raise SelectionError(
            f"{unknown[0]} is nothing of an edge: choose from {', '.join(COLUMNS)}"
        )
    held = {n: c for n, c in COLUMNS.items() if n in dataset and n in (names or COLUMNS)}
    cell = int(dataset[WEIGHT].attrs.get("tokens_per_cell", 1))
    pieces = [
        _layer(dataset, prompt, layer, held, cell)
        for prompt in range(dataset.sizes[dims.PROMPT])
        for layer in range(dataset.sizes[dims.LAYER])
    ]
    table = pd.concat(pieces, ignore_index=True)
    return table.set_index([dims.PROMPT, dims.LAYER, dims.QUERY, dims.KEY])


def _layer(
    dataset: xr.Dataset,
    prompt: int,
    layer: int,
    held: dict[str, str],
    cell: int,
) -> pd.DataFrame:
    place = {dims.PROMPT: prompt, dims.LAYER: layer}
    order = (dims.QUERY, dims.KEY)
    from_text, to_text = (
        np.asarray(labels_of(dataset, prompt, layer, axis), dtype=object)
        for axis in (dims.QUERY, dims.KEY)
    )
    weights = dataset[WEIGHT].isel(place).transpose(*order).values
    weights = weights[: -(-len(from_text) // cell), : -(-len(to_text) // cell)]
    # NaN is not different from 0 here: there is no edge
    query, key = np.nonzero(np.nan_to_num(weights))
    found = {
        dims.PROMPT: dataset[dims.PROMPT].values[prompt],
        dims.LAYER: dataset[dims.LAYER].values[layer],
        dims.QUERY: query * cell,
        dims.KEY: key * cell,
        "query_text": from_text[query * cell],
        "key_text": to_text[key * cell],
    }
    for name, column in held.items():
        found[column] = dataset[name].isel(place).transpose(*order).values[query, key]
    return pd.DataFrame(found)
