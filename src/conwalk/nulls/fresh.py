"""The model before it was trained: same configuration, fresh weights. Theory §3."""

import torch

from conwalk.models import Model
from conwalk.models.fresh import fresh


def fresh_weights(model: Model, generator: torch.Generator) -> Model:
    """Draw a model with the architecture's own initialisation.

    Args:
        model: a model of transformers.
        generator: on the CPU; gives the seed.

    Returns:
        The fresh model.

    Raises:
        SourceError: the model has no configuration to build it from.
    """
    seed = int(torch.randint(2**31, (), generator=generator))
    return fresh(model, seed)
