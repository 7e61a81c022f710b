"""How layers, prompts and tokens are named for a reader."""

from typing import Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from conwalk import dims
from conwalk.errors import SelectionError

Axis = Literal["query", "key"]
_TEXT = "token_text"


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


def text_of(dataset: xr.Dataset, layer: int, axis: Axis = "query") -> str:
    """Find which sequence the queries or the keys of a layer belong to.

    Args:
        dataset: results.
        layer: place along the layers.
        axis: ``query`` or ``key``.

    Returns:
        The coordinate that holds its tokens: ``token_text`` where all layers read one sequence.
    """
    coordinate = f"{axis}_tokens"
    if coordinate not in dataset.coords:
        return _TEXT
    return str(dataset[coordinate].values[layer])


def labels_in(dataset: xr.Dataset, prompt: int, text: str) -> list[str]:
    """Name the tokens of a sequence.

    Args:
        dataset: results.
        prompt: place along the prompts.
        text: the coordinate that holds them, as :func:`text_of` gives it.

    Returns:
        As many as that sequence has.

    Raises:
        SelectionError: the results do not hold these tokens.
    """
    if text not in dataset.coords and text not in dataset:
        raise SelectionError(f"these results hold no {text!r}: keep it where variables are chosen")
    count = int(dataset[text.replace(_TEXT, "n_tokens", 1)].values[prompt])
    named = dataset[text].transpose(dims.PROMPT, dims.TOKEN).values[prompt]
    return [str(token) for token in named[:count]]


def labels_of(dataset: xr.Dataset, prompt: int, layer: int, axis: Axis = "query") -> list[str]:
    """Name the queries or the keys of a layer.

    In cross attention the queries are tokens of the decoder and the keys those of the encoder; the
    two towers of a model read different sequences.

    Args:
        dataset: results.
        prompt: place along the prompts.
        layer: place along the layers.
        axis: ``query`` or ``key``.

    Returns:
        As many as the layer has.

    Raises:
        SelectionError: the results do not hold these tokens.
    """
    return labels_in(dataset, prompt, text_of(dataset, layer, axis))


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
