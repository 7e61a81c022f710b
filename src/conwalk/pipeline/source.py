"""A model from whatever names one, and prompts from whatever holds them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from conwalk.models import Model, load
from conwalk.pipeline.prompts import Prompt, Skipped, Text, batch, tokenise

Prompts = str | Sequence[Text] | Mapping[str, Tensor]
"""A text, several texts or token id sequences, or ready inputs of the model."""


def model_of(model: Model | nn.Module | str) -> Model:
    """The model itself, or loaded from a source or a live module."""
    return model if isinstance(model, Model) else load(model)


class Batches:
    """The passes an analysis makes: inputs for each, and which prompts are in it."""

    def __init__(
        self,
        model: Model,
        prompts: Prompts,
        *,
        names: Sequence[str] | None = None,
        max_length: int | None = None,
        batch_size: int = 1,
    ) -> None:
        self.prompts: list[Prompt]
        self.skipped: list[Skipped] = []
        if isinstance(prompts, Mapping):
            self.prompts = _ready(prompts)
            self._passes = [(dict(prompts), range(len(self.prompts)))]
            return
        texts = [prompts] if isinstance(prompts, str) else list(prompts)
        self.prompts, self.skipped = tokenise(model, texts, names, max_length)
        self._passes = [
            (batch([self.prompts[i] for i in chosen], model), chosen)
            for chosen in _chunks(len(self.prompts), batch_size)
        ]

    def __iter__(self) -> Iterator[tuple[dict[str, Any], range]]:
        """Inputs of each pass, with the positions of its prompts."""
        return iter(self._passes)

    def __len__(self) -> int:
        """Number of passes."""
        return len(self._passes)

    @property
    def example(self) -> dict[str, Any]:
        """Inputs that show what the model is given."""
        return self._passes[0][0]


def _chunks(n: int, size: int) -> list[range]:
    return [range(first, min(first + size, n)) for first in range(0, n, size)]


def _ready(inputs: Mapping[str, Tensor]) -> list[Prompt]:
    """Prompts of a batch that came as tensors; token ids where there are any."""
    first = next(iter(inputs.values()))
    ids = inputs.get("input_ids")
    mask = inputs.get("attention_mask")
    prompts: list[Prompt] = []
    for i in range(first.shape[0]):
        kept: list[int] = []
        if ids is not None:
            row = ids[i] if mask is None else ids[i][mask[i].bool()]
            kept = row.tolist()
        prompts.append(Prompt(i, str(i), tuple(kept), tuple(map(str, kept)), {}))
    return prompts
