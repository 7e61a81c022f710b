"""A model from whatever names one, and prompts from whatever holds them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from conwalk.errors import TextError
from conwalk.models import Model, load
from conwalk.models.encoding import from_ids
from conwalk.models.probe import batch_of
from conwalk.pipeline import media, padding
from conwalk.pipeline.items import Item, is_audio, is_image
from conwalk.pipeline.prompts import Prompt, Skipped, batch, tokenise

Prompts = object
"""One text, image or audio; several prompts in a list, each a text, ``(text, pair)``, token ids, an
image, audio samples, or a mapping of these by name; or ready inputs of the model by name."""

Given = object
"""A loaded model, a live module, an object of another tool that holds one, or a source's name."""


def model_of(model: Given) -> Model:
    """The model itself, or loaded from a source, a live module or another tool's object."""
    return model if isinstance(model, Model) else load(model)


class Batches:
    """The passes an analysis makes: inputs for each, and which prompts are in it.

    Attributes:
        prompts: what is analysed, in the order in which it was given.
        skipped: what could not be used.
        notes: what was done to inputs that their user may not expect, one line each.
    """

    def __init__(
        self,
        model: Model,
        prompts: Prompts,
        *,
        names: Sequence[str] | None = None,
        max_length: int | None = None,
        batch_size: int = 1,
    ) -> None:
        self.model = model
        self.prompts: list[Prompt]
        self.skipped: list[Skipped] = []
        self.notes: list[str] = []
        ready = _ready_inputs(prompts)
        if ready is not None:
            self._take_ready(ready)
            return
        self.prompts, self.skipped = tokenise(model, _listed(prompts), names, max_length)
        self.notes += [f"prompt {p.name}: {note}" for p in self.prompts for note in p.notes]
        self._passes = [
            (_joined([self.prompts[i] for i in chosen], model), chosen)
            for chosen in _chunks(self.prompts, batch_size)
        ]

    def __iter__(self) -> Iterator[tuple[dict[str, Any], range]]:
        """Inputs of each pass, with the positions of its prompts."""
        for inputs, chosen in self._passes:
            if padding.is_padded(inputs) and padding.breaks(self.model.module, inputs):
                yield from self._one_by_one(inputs, chosen)
            else:
                yield inputs, chosen

    def __len__(self) -> int:
        """Number of passes, where all batches are run as they are."""
        return len(self._passes)

    @property
    def passes(self) -> Sequence[tuple[dict[str, Any], range]]:
        """All passes as they were put together."""
        return self._passes

    @property
    def example(self) -> dict[str, Any]:
        """Inputs that show what the model is given."""
        return self._passes[0][0]

    def _one_by_one(
        self, inputs: dict[str, Any], chosen: range
    ) -> Iterator[tuple[dict[str, Any], range]]:
        names = ", ".join(self.prompts[i].name for i in chosen)
        self._note(
            f"prompts {names} were run one at a time: padded together, the model gives NaN "
            "(padding has a row of attention without any key)"
        )
        for place, prompt in enumerate(chosen):
            yield padding.alone(inputs, place, len(chosen)), range(prompt, prompt + 1)

    def _note(self, line: str) -> None:
        if line not in self.notes:
            self.notes.append(line)

    def _take_ready(self, given: Mapping[str, Any]) -> None:
        inputs = padding.to_the_right(given)
        if any(inputs[name] is not given[name] for name in inputs):
            self._note(
                "padding before the tokens was moved behind them, so that positions are those of "
                "each prompt alone"
            )
        self.prompts = _ready(self.model, inputs)
        self._passes = [(inputs, range(len(self.prompts)))]


def _ready_inputs(prompts: Any) -> Mapping[str, Any] | None:
    """A batch of inputs by name; None for a mapping that is one prompt, and for all else."""
    if not isinstance(prompts, Mapping):
        return None
    batched = any(isinstance(v, Tensor) and v.dim() > 1 for v in prompts.values())
    return prompts if batched else None


def _listed(prompts: Any) -> list[Any]:
    """Several prompts, or one."""
    if isinstance(prompts, str | Mapping | Item) or is_image(prompts) or is_audio(prompts):
        return [prompts]
    if not isinstance(prompts, Iterable):
        raise TextError(
            f"{type(prompts).__name__} is no prompt; give a text, a list of prompts or ready inputs"
        )
    return list(prompts)


def _shapes(prompt: Prompt) -> Any:
    """What must be alike for prompts to share a pass without padding; None for token sequences."""
    if prompt.ready is None:
        return None
    return tuple((name, tuple(t.shape)) for name, t in prompt.ready.items())


def _chunks(prompts: Sequence[Prompt], size: int) -> list[range]:
    """Consecutive prompts that share a pass; images and audio only where their shapes are alike."""
    found: list[range] = []
    for i, prompt in enumerate(prompts):
        last = found[-1] if found else range(0)
        if last and len(last) < size and _shapes(prompts[last.start]) == _shapes(prompt):
            found[-1] = range(last.start, i + 1)
        else:
            found.append(range(i, i + 1))
    return found


def _joined(prompts: Sequence[Prompt], model: Model) -> dict[str, Any]:
    first = prompts[0].ready
    if first is None:
        return dict(batch(prompts, model))
    ready = [p.ready or {} for p in prompts]
    return {name: torch.cat([one[name] for one in ready]) for name in first}


def _ready(model: Model, inputs: Mapping[str, Any]) -> list[Prompt]:
    """Prompts of a batch that came as tensors; token ids where there are any."""
    rows = tokens_of(inputs, "")
    other = media.patches(model, inputs) if has_media(inputs) else None
    prompts: list[Prompt] = []
    for i in range(batch_of(dict(inputs))):
        encoded = from_ids(model.tokenizer, rows[i] if rows else ())
        prompts.append(
            Prompt(
                index=i,
                name=str(i),
                ids=encoded.ids,
                pieces=encoded.labels,
                special=encoded.special,
                other=other,
            )
        )
    return prompts


def has_media(inputs: Mapping[str, Any]) -> bool:
    """Whether a pass reads anything but token ids."""
    return any(isinstance(t, Tensor) and t.is_floating_point() for t in inputs.values())


def tokens_of(inputs: Mapping[str, Any], prefix: str) -> list[list[int]]:
    """The token ids of every prompt of a pass, without padding; empty where it has none.

    Args:
        inputs: of the pass.
        prefix: ``"decoder_"`` for what a decoder reads of its own.
    """
    ids, mask = inputs.get(f"{prefix}input_ids"), inputs.get(f"{prefix}attention_mask")
    if not isinstance(ids, Tensor):
        return []
    if not isinstance(mask, Tensor) or mask.shape != ids.shape:
        return ids.tolist()
    return [row[kept.bool()].tolist() for row, kept in zip(ids, mask, strict=True)]
