"""A tiny random model of any family of transformers."""

import importlib
from typing import Any

import torch
from torch import nn

from family_configs import tiny_config

_WEIGHT_SCALE = 1.5
_VECTOR_SCALE = 0.3


def build(model_type: str, seed: int = 0, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Build a tiny model of one family with random weights and random, nonzero biases.

    Args:
        model_type: as transformers knows it.
        seed: of the weights.
        dtype: of the parameters.

    Returns:
        The model, in evaluation mode, on the CPU.
    """
    config = tiny_config(model_type)
    kind = model_class(config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind._from_config(config, attn_implementation="eager", dtype=dtype)
    randomise(model, seed)
    return model.eval()


def model_class(config: Any) -> Any:
    """The bare model of a configuration: that of AutoModel, or the plainest class there is."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    named = MODEL_MAPPING_NAMES.get(config.model_type)
    if named is not None:
        return getattr(transformers, named if isinstance(named, str) else named[0])
    place = type(config).__module__.replace("configuration_", "modeling_")
    module = importlib.import_module(place)
    found = [
        c
        for c in vars(module).values()
        if isinstance(c, type)
        and issubclass(c, transformers.PreTrainedModel)
        and c.config_class is type(config)
        and not c.__name__.endswith("PreTrainedModel")
    ]
    if not found:
        raise LookupError(f"no model class of {place} is built from {type(config).__name__}")
    return min(found, key=lambda c: (not c.__name__.endswith("Model"), len(c.__name__)))


@torch.no_grad()
def randomise(model: nn.Module, seed: int) -> None:
    """Fill every parameter: scaled weights, nonzero biases, norm weights around 1."""
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        convolves = isinstance(module, nn.modules.conv._ConvNd)
        norm = "norm" in type(module).__name__.lower()
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.is_floating_point():
                continue
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() > 1:
                fan = parameter[0].numel() if convolves else parameter.shape[-1]
                values = noise * _WEIGHT_SCALE * max(fan, 1) ** -0.5
            elif norm and name.endswith("weight"):
                values = 1 + noise * _VECTOR_SCALE
            else:
                values = noise * _VECTOR_SCALE
            parameter.copy_(values)
