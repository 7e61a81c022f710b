"""The architecture's own initialisation: the same configuration, weights never trained."""

import copy
from typing import Any

import torch

from conwalk.errors import SourceError
from conwalk.models import fingerprint
from conwalk.models.model import Model
from conwalk.models.quiet import quiet


def fresh(model: Model, seed: int = 0) -> Model:
    """Build a model of the same configuration with the weights its architecture starts from.

    Args:
        model: a model of transformers; it is not touched.
        seed: of the weights; the same seed gives the same weights. The state of torch's random
            numbers is as before afterwards.

    Returns:
        The fresh model, with the dtype, device and tokenizer of the given one. Theory §3.

    Raises:
        SourceError: the model has no configuration to build it from.
    """
    import transformers

    if not isinstance(model.module, transformers.PreTrainedModel):
        raise SourceError(
            f"{model.source}: {type(model.module).__name__} is no model of transformers, so its "
            "own initialisation is not known; leave out the null of fresh weights"
        )
    module = _build(model.module, model.dtype, seed).to(model.device).eval()
    return Model(
        module=module,
        tokenizer=model.tokenizer,
        source=f"{model.source} (fresh weights, seed {seed})",
        kind="live",
        notes=("the weights are those of the architecture's own initialisation",),
        hash_weights=lambda: fingerprint.of_module(module),
    )


def _build(module: Any, dtype: torch.dtype, seed: int) -> Any:
    config = copy.deepcopy(module.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with quiet(), torch.random.fork_rng():
        torch.manual_seed(seed)
        return type(module)._from_config(config, dtype=dtype, attn_implementation="eager")
