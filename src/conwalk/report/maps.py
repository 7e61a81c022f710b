"""What is drawn of single layers: images of edges, spectra, singular values, token maps."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from conwalk import results
from conwalk.report.catalogue import title
from conwalk.report.encoding import Blocks, encode
from conwalk.report.quantities import SHOWN_PROMPTS, bounds

IMAGES = ("walk_matrix", "edge_effective_rank", "edge_norm")
CLOUDS = ("spectrum_real", "spectrum_imag", "diffusion_map")
SCALE = "spectrum_scale"
BAND = ("singular_values_null_low", "singular_values_null_high")


def maps(dataset: xr.Dataset, blocks: Blocks, room: int) -> dict[str, Any]:
    """Describe all maps in the results, and put as many into blocks as there is room for.

    Args:
        dataset: results.
        blocks: of the page.
        room: characters that all blocks together may have.

    Returns:
        By variable, its words and ``layers``: for every prompt, then every layer, where its numbers
        are, or null. ``left_out`` says how many images there was no room for.
    """
    found: dict[str, Any] = {name: _words(dataset, name) for name in _present(dataset)}
    _singular_values(dataset, found, blocks)
    if "operator_distance" in found:
        distances = dataset["operator_distance"].transpose("prompt", "layer", "layer_to")
        found["operator_distance"]["numbers"] = [
            blocks.add(one, "digits") if np.isfinite(one).any() else None
            for one in distances.to_numpy()[:SHOWN_PROMPTS]
        ]
    if SCALE in dataset:
        found[SCALE] = {**_words(dataset, SCALE), "values": _scales(dataset)}
    found["left_out"] = _by_layer(dataset, found, blocks, room)
    return found


def _present(dataset: xr.Dataset) -> list[str]:
    names = (*IMAGES, *CLOUDS, "operator_distance", "singular_values", *BAND)
    return [name for name in names if name in dataset]


def _words(dataset: xr.Dataset, name: str) -> dict[str, Any]:
    attrs = dataset[name].attrs
    return {
        "title": title(name),
        "symbol": str(attrs.get("symbol", "")),
        "meaning": str(attrs.get("long_name", "")),
        "section": str(attrs.get("section", "")),
        "range": bounds(attrs),
        "of": str(attrs.get("of", "")),
        "cell": int(attrs.get("tokens_per_cell", dataset.attrs.get("tokens_per_cell", 1))),
    }


def _singular_values(dataset: xr.Dataset, found: dict[str, Any], blocks: Blocks) -> None:
    axes = {"singular_values": ("layer", "head", "coordinate")}
    for name in ("singular_values", *BAND):
        if name in found:
            ordered = dataset[name].transpose(*axes.get(name, ("layer", "coordinate")))
            found[name]["numbers"] = blocks.add(ordered.to_numpy())


def _scales(dataset: xr.Dataset) -> list[list[float | None]]:
    """The radius of the circle that eigenvalues of an isometric connection keep to."""
    values = dataset[SCALE].transpose("prompt", "layer").to_numpy()[:SHOWN_PROMPTS]
    return [[float(v) if np.isfinite(v) else None for v in row] for row in values]


def _by_layer(dataset: xr.Dataset, found: dict[str, Any], blocks: Blocks, room: int) -> int:
    """Keep what every layer of a prompt has, what matters most first; count what is left out."""
    shape = (min(dataset.sizes["prompt"], SHOWN_PROMPTS), dataset.sizes["layer"])
    for name in (*CLOUDS, *IMAGES):
        if name in found:
            found[name]["layers"] = [[None] * shape[1] for _ in range(shape[0])]
    left_out = 0
    for name, prompt, layer in _in_order(found, *shape):
        values = _one(dataset, name, prompt, layer)
        if values is None:
            continue
        text = encode(values, "digits")
        if blocks.size + len(text) > room:
            left_out += 1
        else:
            found[name]["layers"][prompt][layer] = blocks.keep(text, values.shape, "digits")
    return left_out


def _in_order(found: dict[str, Any], prompts: int, layers: int) -> Iterator[tuple[str, int, int]]:
    for prompt in range(prompts):
        for names in (CLOUDS, IMAGES[:1], IMAGES[1:]):
            for layer in range(layers):
                yield from ((name, prompt, layer) for name in names if name in found)


def _one(dataset: xr.Dataset, name: str, prompt: int, layer: int) -> Any:
    """The numbers of one prompt and layer, cut to what is there; None if nothing is."""
    values = dataset[name].isel(prompt=prompt, layer=layer).to_numpy()
    known = np.isfinite(values)
    if not known.any():
        return None
    if name in CLOUDS:
        rows = known.reshape(len(known), -1).any(1)
        return values[: int(np.flatnonzero(rows)[-1]) + 1]
    rows, columns = _extent(dataset, name, prompt, layer)
    return values[:rows, :columns]


def _extent(dataset: xr.Dataset, name: str, prompt: int, layer: int) -> tuple[int, int]:
    """Cells of an image that lie within its prompt; where there is no edge ranks have none."""
    within = IMAGES[0] if IMAGES[0] in dataset else name
    known = np.isfinite(dataset[within].isel(prompt=prompt, layer=layer).to_numpy())
    if not known.any():
        return known.shape
    cell = _words(dataset, within)["cell"]
    rows, columns = (
        min(int(np.flatnonzero(known.any(1 - place))[-1]) + 1, -(-len(labels) // cell))
        for place, labels in enumerate(
            results.labels_of(dataset, prompt, layer, axis) for axis in ("query", "key")
        )
    )
    return rows, columns
