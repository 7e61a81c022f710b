"""How layers and prompts are named for a reader."""

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from conwalk import dims
from conwalk.errors import SelectionError


def layer_labels(dataset: xr.Dataset) -> list[str]:
    """Name the layers.

    Args:
        dataset: results.

    Returns:
        ``7``, or ``decoder.7`` where the model has several stacks.
    """
    return [str(layer) for layer in dataset[dims.LAYER].values]


def model_name(dataset: xr.Dataset) -> str:
    """Name the model briefly.

    Args:
        dataset: results.

    Returns:
        The package, the last folder, or the name on the Hub, without where it lies.
    """
    source = str(dataset.attrs.get("model", "model")).rstrip("/")
    if source.startswith("pkg:"):
        return source.removeprefix("pkg:").split("/")[0]
    return source.split("/")[-1]


def stacks_of(dataset: xr.Dataset) -> list[str]:
    """Name the stack of every layer.

    Args:
        dataset: results.

    Returns:
        One name a layer; all the same where the model has one stack.
    """
    if "stack" not in dataset.coords:
        return [""] * dataset.sizes[dims.LAYER]
    return [str(s) for s in dataset["stack"].values]


def relative_depth(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Place every layer between the first of its stack and the last one that was analysed.

    Args:
        dataset: results.

    Returns:
        Number over largest number, from 0 to 1, one a layer; 0 for the only layer of a stack.
    """
    stacks = np.asarray(stacks_of(dataset), dtype=object)
    numbers = np.asarray([int(label.split(".")[-1]) for label in layer_labels(dataset)], float)
    depth = np.zeros(len(numbers))
    for stack in dict.fromkeys(stacks):
        chosen = stacks == stack
        depth[chosen] = numbers[chosen] / max(numbers[chosen].max(), 1)
    return depth


def place_of_layer(dataset: xr.Dataset, layer: int | str) -> int:
    """Find a layer by its label.

    Args:
        dataset: results.
        layer: its number, or its label where the model has several stacks.

    Returns:
        Its place along the layers.

    Raises:
        SelectionError: it is not there, or there are several of that number.
    """
    return _place(str(layer), layer_labels(dataset), "layer")


def place_of_head(dataset: xr.Dataset, head: int) -> int:
    """Find a head by its number.

    Args:
        dataset: results.
        head: its number.

    Returns:
        Its place along the heads.

    Raises:
        SelectionError: it is not there.
    """
    return _place(str(head), [str(h) for h in dataset[dims.HEAD].values], "head")


def place_of_prompt(dataset: xr.Dataset, prompt: int | str) -> int:
    """Find a prompt by its name, or else by its place.

    Args:
        dataset: results.
        prompt: its name, or its place from 0.

    Returns:
        Its place along the prompts.

    Raises:
        SelectionError: it is not there.
    """
    names = [str(p) for p in dataset[dims.PROMPT].values]
    if isinstance(prompt, int) and 0 <= prompt < len(names):
        return prompt
    if str(prompt) not in names and str(prompt).isdigit() and int(prompt) < len(names):
        return int(prompt)
    return _place(str(prompt), names, "prompt")


def _place(wanted: str, known: list[str], what: str) -> int:
    if wanted not in known:
        raise SelectionError(
            f"{what} {wanted} is not in these results: choose from {', '.join(known)}"
        )
    return known.index(wanted)
