"""Results as tidy tables."""

import json
from typing import Any

import pandas as pd
import xarray as xr

from conwalk import dims


def layer_table(dataset: xr.Dataset) -> pd.DataFrame:
    """One row a layer: every variable, mean over prompts and median over heads and tokens.

    Residuals and defects are the worst over prompts instead, as their attribute ``over_prompts``
    says.

    Returns:
        A frame indexed by layer, with one column a variable.
    """
    columns: dict[str, pd.Series] = {}
    for name, variable in dataset.data_vars.items():
        if dims.LAYER not in variable.dims:
            continue
        inner = [d for d in (dims.HEAD, dims.TOKEN) if d in variable.dims]
        value = variable.median(inner, skipna=True) if inner else variable
        if dims.PROMPT in value.dims:
            worst = variable.attrs.get("over_prompts") == "worst"
            value = value.max(dims.PROMPT) if worst else value.mean(dims.PROMPT)
        columns[str(name)] = value.to_series()
    return pd.DataFrame(columns)


def layer_records(dataset: xr.Dataset) -> list[dict[str, Any]]:
    """The layer table in the types of JSON; null where there is no number."""
    return json.loads(str(layer_table(dataset).reset_index().to_json(orient="records")))
