"""Results in plain sentences, each number beside what chance gives."""

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr

from conwalk import results
from conwalk.report import findings
from conwalk.report.digits import counted, short
from conwalk.report.readings import Reading, read_layers


class Sentence(NamedTuple):
    """One thing to know about some results.

    Attributes:
        topic: ``Analysed``, ``Exactness``, ``Conditions``, ``What stands out`` or ``Refused``.
        text: a sentence or two.
    """

    topic: str
    text: str


def sentences(dataset: xr.Dataset) -> list[Sentence]:
    """Say what was analysed, whether it is exact, which conditions hold, and what stands out.

    Args:
        dataset: results; whatever is missing from them is passed over, or said to be missing.

    Returns:
        Sentences in a reader's order. Unless they say otherwise, numbers are medians over heads,
        then means over prompts, as in ``conwalk.results.layer_table``.
    """
    parts = {
        "Analysed": _analysed(dataset),
        "Exactness": _exactness(dataset),
        "Conditions": _conditions(dataset),
        "What stands out": findings.findings(dataset),
        "Refused": _refused(dataset),
    }
    return [Sentence(topic, text) for topic, texts in parts.items() for text in texts]


def _analysed(dataset: xr.Dataset) -> Iterator[str]:
    attrs, layers = dataset.attrs, dataset.sizes["layer"]
    tokens = int(np.asarray(dataset["n_tokens"]).sum())
    kind = f" ({attrs['model_class']})" if attrs.get("model_class") else ""
    heads = dataset.sizes.get("head", 0)
    of_heads = (
        f" of {'up to ' if _uneven(dataset) else ''}{counted(heads, 'head')}" if heads else ""
    )
    yield (
        f"{attrs.get('model', 'The model')}{kind}: {counted(layers, 'attention layer')}{of_heads}, "
        f"on {counted(dataset.sizes['prompt'], 'prompt')} with {counted(tokens, 'token')} in all, "
        f"run in {attrs.get('dtype', 'an unknown dtype')} on {attrs.get('device', 'cpu')}."
    )
    if attrs.get("model_quantized"):
        notes = json.loads(attrs.get("model_notes", "[]"))
        yield f"{': '.join(['The weights are quantised, and analysed as they are', *notes])}."
    if len(set(results.stacks_of(dataset))) > 1:
        names = dict.fromkeys(results.stacks_of(dataset))
        yield f"The layers lie in {len(names)} stacks: {', '.join(names)}."


def _uneven(dataset: xr.Dataset) -> bool:
    """Whether some layers have fewer heads than others."""
    if "rho" not in dataset:
        return False
    there = np.isfinite(dataset["rho"].transpose("layer", "head").to_numpy()).sum(1)
    return bool((there != there.max()).any())


def _exactness(dataset: xr.Dataset) -> Iterator[str]:
    residual = read_layers(dataset, "residual")
    refused = [entry for entry in _entries(dataset) if not entry["name"].startswith("text ")]
    if residual is None:
        yield "These results do not say how exactly the layers were rebuilt."
        return
    proven = int(np.isfinite(residual.values).sum())
    yield (
        f"{counted(proven, 'layer was', 'layers were')} rebuilt from attention weights, values and "
        "projections as a connection walk and compared with the model's own output: "
        f"{_worst(residual)}."
    )
    if refused:
        yield (
            f"{counted(len(refused), 'layer or model part', 'layers or model parts')} could not be "
            "rebuilt: left out of everything below, and named under what was refused."
        )
    else:
        yield "No layer was refused."


def _worst(residual: Reading) -> str:
    worst = residual.highest
    if worst.value == 0:
        return "every one of them bit for bit"
    return (
        f"the worst token of all is off by {short(worst.value)} of the output's root mean square "
        f"(layer {worst.layer})"
    )


def _conditions(dataset: xr.Dataset) -> Iterator[str]:
    if "verdict" not in dataset.coords:
        yield "These results hold no verdicts on the conditions."
        return
    labels = results.layer_labels(dataset)
    for line in results.grouped(labels, [str(v) for v in dataset["verdict"].values]):
        yield f"{line[:1].upper()}{line[1:]}."
    yield from findings.conditions(dataset)


def _refused(dataset: xr.Dataset) -> Iterator[str]:
    entries = _entries(dataset)
    for entry in entries:
        yield f"{entry['name']}: {entry['reason']}"
    if not entries:
        yield "Nothing was refused."


def _entries(dataset: xr.Dataset) -> list[dict[str, str]]:
    return results.refused(dataset) if "refused" in dataset.attrs else []
