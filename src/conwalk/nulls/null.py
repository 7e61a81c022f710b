"""What a null model is: a record that says what it keeps and what it makes random."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

ActsOn = Literal["layer", "layers", "model"]


@dataclass(frozen=True, eq=False)
class Null:
    """One null model.

    Attributes:
        name: how it is chosen.
        acts_on: what ``draw`` takes and gives: one ``layer`` of one prompt (``LayerData``),
            arrays stacked along the ``layers``, or a ``model``.
        keeps: what is the same as in what was observed.
        randomises: what is replaced.
        draw: ``draw(given, generator)``; the generator is a ``torch.Generator`` on the CPU.
        deterministic: whether every draw is the same, so that one is enough and there is no
            standard deviation.
        section: where it is defined.
    """

    name: str
    acts_on: ActsOn
    keeps: str
    randomises: str
    draw: Callable[[Any, Any], Any]
    deterministic: bool = False
    section: str = "Theory §3"
