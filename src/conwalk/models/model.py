"""A loaded model: the module, its tokenizer, and where both came from."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import nn

from conwalk.errors import SourceError
from conwalk.markup import card
from conwalk.models import offload

Kind = Literal["hub", "folder", "gguf", "package", "live"]


def _no_processor() -> tuple[Any, str]:
    return None, "none was given"


@dataclass(frozen=True)
class Model:
    """A model ready to be analysed.

    Attributes:
        module: the network, in evaluation mode unless it was handed over loaded.
        tokenizer: its tokenizer, or None (``notes`` then says why).
        source: what it was loaded from, as the user wrote it.
        kind: the way it was loaded.
        quantized: True if the weights went through a quantisation; the analysis then
            describes the quantised model.
        notes: what the user should know about this load, one sentence each.
        hash_weights: computes ``weights_hash``.
        find_processor: looks for what makes images or audio into inputs; gives it, or None and the
            reason why there is none.
    """

    module: nn.Module
    tokenizer: Any
    source: str
    kind: Kind
    quantized: bool = False
    notes: tuple[str, ...] = ()
    hash_weights: Callable[[], str] = field(default=str, repr=False, compare=False)
    find_processor: Callable[[], tuple[Any, str]] = field(
        default=_no_processor, repr=False, compare=False
    )

    @cached_property
    def weights_hash(self) -> str:
        """Fingerprint ``"sha256:…"`` of the weight files, or of a live module's values."""
        return self.hash_weights()

    def _repr_html_(self) -> str:
        """Describe it to a notebook."""
        parameters = sum(p.numel() for p in self.module.parameters())
        facts = {
            "class": type(self.module).__name__,
            "loaded as": f"{self.kind}, quantised" if self.quantized else self.kind,
            "parameters": f"{parameters:,}".replace(",", " "),
            "dtype": f"{self.dtype}, {self.device}",
            "tokenizer": "none" if self.tokenizer is None else type(self.tokenizer).__name__,
        }
        notes = {f"note {i}": note for i, note in enumerate(self.notes, 1)}
        return card(self.source or "live model", {**facts, **notes})

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the first floating parameter; the default dtype if there is none."""
        floating = (p.dtype for p in self.module.parameters() if p.dtype.is_floating_point)
        return next(floating, torch.get_default_dtype())

    @property
    def device(self) -> torch.device:
        """Device of the first parameter, or where offloaded ones go; the CPU if there is none."""
        return offload.device(self.module)

    def require_tokenizer(self) -> Any:
        """Give the tokenizer.

        Raises:
            SourceError: the model has none.
        """
        if self.tokenizer is None:
            raise SourceError(
                f"{self.source}: no tokenizer was found with the model, so texts cannot be read; "
                "pass tokenizer= (a folder, a Hub id or a tokenizer object) or give token ids"
            )
        return self.tokenizer

    @cached_property
    def _processor(self) -> tuple[Any, str]:
        return self.find_processor()

    def require_processor(self, what: str) -> Any:
        """Give the processor.

        Args:
            what: is to be read, for the message: ``"images"`` or ``"audio"``.

        Raises:
            SourceError: the model has none.
        """
        found, lack = self._processor
        if found is None:
            raise SourceError(
                f"{self.source}: no processor was found with the model, so {what} cannot be read "
                f"({lack}); pass processor=, or ready inputs"
            )
        return found

    def noting(self, *notes: str) -> "Model":
        """The same model with more notes."""
        return replace(self, notes=(*self.notes, *notes))
