"""Labelled results: the one place that says how a dataset looks."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from conwalk import dims
from conwalk.results.variable import Variable

REFUSED = "refused"
TEXTS = "texts"
FORMAT = "conwalk-results/1"


def assemble(
    variables: Mapping[str, Variable],
    *,
    layers: Mapping[str, Sequence[Any]],
    heads: Sequence[int] | None = None,
    prompts: Sequence[str],
    tokens: Sequence[Sequence[str]] | Mapping[str, Sequence[Sequence[str]]],
    texts: Sequence[str | None] | None = None,
    refused: Sequence[Mapping[str, str]],
    provenance: Mapping[str, Any],
) -> xr.Dataset:
    """Build a dataset with dims ``prompt, layer, head, token``.

    Args:
        variables: the arrays.
        layers: coordinates along the layers; ``layer`` itself and any others.
        heads: numbers of the heads; counted from 0 by default.
        prompts: names of the prompts.
        tokens: the tokens of every prompt as text; several tables by the ending of their names
            (``""`` for the main one) where layers read different sequences.
        texts: the text of every prompt, None where it has none.
        refused: what could not be analysed, each with ``name`` and ``reason``.
        provenance: versions, model, dtype, device, seed, command.
    """
    arrays = {n: (v.dims, v.values, _plain(v.attrs)) for n, v in variables.items()}
    dataset = xr.Dataset(
        arrays,
        coords={name: (dims.LAYER, _labels(values)) for name, values in layers.items()},
    )
    numbers = range(dataset.sizes.get(dims.HEAD, 0)) if heads is None else heads
    tables = tokens if isinstance(tokens, Mapping) else {"": tokens}
    given = [None] * len(prompts) if texts is None else list(texts)
    return dataset.assign_coords(
        {
            dims.PROMPT: np.asarray(list(prompts), dtype=object),
            dims.HEAD: np.asarray(list(numbers), dtype=np.int64),
            **_token_tables(tables),
        }
    ).assign_attrs(
        {
            **_plain(provenance),
            "format": FORMAT,
            REFUSED: json.dumps([dict(r) for r in refused]),
            TEXTS: json.dumps(given, ensure_ascii=False),
        }
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


def _token_tables(tables: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, Any]:
    """Coordinates with the tokens of every sequence that layers read, and how many they are."""
    width = max((len(row) for tokens in tables.values() for row in tokens), default=0)
    found: dict[str, Any] = {}
    for ending, tokens in tables.items():
        table = np.full((len(tokens), width), "", dtype=object)
        for i, row in enumerate(tokens):
            table[i, : len(row)] = row
        count = np.asarray([len(row) for row in tokens], dtype=np.int64)
        meaning = {"meaning": "the tokens as text"}
        found[f"token_text{ending}"] = ((dims.PROMPT, dims.TOKEN), table, meaning)
        found[f"n_tokens{ending}"] = ((dims.PROMPT,), count, {"unit": "tokens"})
    return found


def _plain(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as every storage format can hold them."""
    kept: dict[str, Any] = {}
    for name, value in attrs.items():
        if isinstance(value, tuple | list):
            kept[name] = json.dumps(list(value))
        elif value is not None:
            kept[name] = value if isinstance(value, str | int | float) else str(value)
    return kept
