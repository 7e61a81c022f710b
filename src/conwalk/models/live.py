"""Models that the user has loaded already."""

from typing import Any

from torch import nn

from conwalk.models import fingerprint
from conwalk.models.model import Model


def wrap(module: nn.Module, tokenizer: Any = None) -> Model:
    """Take a loaded module as it is: dtype, device, mode and configuration stay untouched.

    Args:
        module: any network with attention.
        tokenizer: its tokenizer, if texts are to be read.

    Returns:
        A model of kind ``"live"``, named after its class.
    """
    notes = () if tokenizer is not None else ("no tokenizer was given: pass token ids, not texts",)
    return Model(
        module=module,
        tokenizer=tokenizer,
        source=type(module).__name__,
        kind="live",
        quantized=bool(getattr(module, "is_quantized", False)),
        notes=notes,
        hash_weights=lambda: fingerprint.of_module(module),
    )
