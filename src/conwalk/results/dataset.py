"""Labelled results: the one place that says how a dataset looks."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from conwalk import dims
from conwalk.results.variable import Variable

REFUSED = "refused"
FORMAT = "conwalk-results/1"


def assemble(
    variables: Mapping[str, Variable],
    *,
    layers: Mapping[str, Sequence[Any]],
    heads: Sequence[int] | None = None,
    prompts: Sequence[str],
    tokens: Sequence[Sequence[str]],
    refused: Sequence[Mapping[str, str]],
    provenance: Mapping[str, Any],
) -> xr.Dataset:
    """Build a dataset with dims ``prompt, layer, head, token``.

    Args:
        variables: the arrays.
        layers: coordinates along the layers; ``layer`` itself and any others.
        heads: numbers of the heads; counted from 0 by default.
        prompts: names of the prompts.
        tokens: the tokens of every prompt as text.
        refused: what could not be analysed, each with ``name`` and ``reason``.
        provenance: versions, model, dtype, device, seed, command.
    """
    arrays = {n: (v.dims, v.values, _plain(v.attrs)) for n, v in variables.items()}
    dataset = xr.Dataset(
        arrays,
        coords={name: (dims.LAYER, _labels(values)) for name, values in layers.items()},
    )
    numbers = range(dataset.sizes.get(dims.HEAD, 0)) if heads is None else heads
    text, count = _token_table(tokens)
    return dataset.assign_coords(
        {
            dims.PROMPT: np.asarray(list(prompts), dtype=object),
            dims.HEAD: np.asarray(list(numbers), dtype=np.int64),
            "token_text": ((dims.PROMPT, dims.TOKEN), text, {"meaning": "the tokens as text"}),
            "n_tokens": ((dims.PROMPT,), count, {"unit": "tokens"}),
        }
    ).assign_attrs(
        {**_plain(provenance), "format": FORMAT, REFUSED: json.dumps([dict(r) for r in refused])}
    )


def refused(dataset: xr.Dataset) -> list[dict[str, str]]:
    """What could not be analysed, each with its ``name`` and ``reason``."""
    return json.loads(dataset.attrs[REFUSED])


def _labels(values: Sequence[Any]) -> np.ndarray:
    """Numbers as numbers; text as objects, which every storage format keeps as they are."""
    numbers = (np.int64, int), (np.float64, float)
    kinds = [kind for kind, python in numbers if all(isinstance(v, python) for v in values)]
    kind = kinds[0] if kinds else object
    return np.asarray(list(values), dtype=kind)


def _token_table(tokens: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    count = np.asarray([len(row) for row in tokens], dtype=np.int64)
    table = np.full((len(tokens), int(count.max(initial=0))), "", dtype=object)
    for i, row in enumerate(tokens):
        table[i, : len(row)] = row
    return table, count


def _plain(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as every storage format can hold them."""
    kept: dict[str, Any] = {}
    for name, value in attrs.items():
        if isinstance(value, tuple | list):
            kept[name] = json.dumps(list(value))
        elif value is not None:
            kept[name] = value if isinstance(value, str | int | float) else str(value)
    return kept
