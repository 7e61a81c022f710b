"""One family and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

OUTCOMES: Mapping[str, str] = {
    "exact": "every place at which the model attends was rebuilt exactly",
    "partly exact": "some places were rebuilt exactly, the others are refused by name",
    "refused": "no place can be read as a connection walk, for the reason given",
    "no attention": "nothing in it multiplies softmax weights with values",
    "not built": "not built from a tiny configuration, so nothing is known about it",
}
"""The outcomes there are, from best to worst, and what each says."""


@dataclass(frozen=True)
class Family:
    """What became of one family of transformers.

    Attributes:
        name: the model type, as transformers calls it.
        built: the class that was built; empty if none was.
        inputs: names of the inputs it was given.
        outcome: a key of ``OUTCOMES``.
        kinds: what sets its walks apart from plain ones (``cross``, ``gated``, ``leak``,
            ``signed``, ``input-dependent map``, …), in alphabetical order.
        sets: each run of layers by name, with the numbers of its exact layers.
        without: numbers of the layers that have no attention.
        windows: layer to the number of tokens its queries reach, where that is limited.
        reasons: why places were refused, or why nothing was built.
    """

    name: str
    built: str = ""
    inputs: tuple[str, ...] = ()
    outcome: str = "not built"
    kinds: tuple[str, ...] = ()
    sets: Mapping[str, str] = field(default_factory=dict)
    without: str = ""
    windows: Mapping[str, int] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()

    @property
    def modality(self) -> str:
        """What it was given to read."""
        given = {_SENSES.get(name, "") for name in self.inputs} - {""}
        return given.pop() if len(given) == 1 else "several" if given else "other"

    @property
    def notes(self) -> str:
        """Everything about its layers in one line."""
        parts: list[str] = []
        named = set(self.sets) - {"self"}
        if named:
            parts.append("; ".join(f"{name} {numbers}" for name, numbers in self.sets.items()))
        if self.without:
            parts.append(f"no attention in layers {self.without}")
        if self.windows:
            listed = ", ".join(f"{layer}: {width}" for layer, width in self.windows.items())
            parts.append(f"windows {listed}")
        return "; ".join((*parts, *self.reasons))


_SENSES = {
    "input_ids": "text",
    "decoder_input_ids": "text",
    "pixel_values": "image",
    "pixel_values_videos": "image",
    "input_features": "audio",
    "input_values": "audio",
}
