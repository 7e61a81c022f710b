"""Random inputs for a tiny model of any family, by the names its forward asks for."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from family_rows import INPUTS

TOKENS = 12
_TARGET_TOKENS = 9
_FIRST, _LAST = 5, 90


def inputs_of(model: nn.Module, batch: int = 2, seed: int = 1) -> dict[str, Any]:
    """Random inputs for a model of ``family_build``.

    Args:
        model: the model.
        batch: prompts, images or recordings.
        seed: the same seed gives the same inputs.

    Returns:
        Keyword arguments of its forward.
    """
    make = _Maker(model, batch, torch.Generator().manual_seed(seed))
    config = model.config
    own: Mapping[str, Any] = INPUTS.get(config.model_type, {})
    names = list(own.get("names", _names(model)))
    given = {name: make(name) for name in names}
    fixed = own.get("make")
    return given | (fixed(make) if fixed else {})


def _names(model: Any) -> list[str]:
    known = inspect.signature(model.forward).parameters
    names = [model.main_input_name]
    if names[0] not in known:
        names = [next(n for n in known if n in _MAKERS)]
    if model.config.is_encoder_decoder and "decoder_input_ids" in known:
        names.append("decoder_input_ids")
    return names


class _Maker:
    """Makes one named input of one model."""

    def __init__(self, model: Any, batch: int, generator: torch.Generator) -> None:
        self.model = model
        self.config = model.config
        self.batch = batch
        self.generator = generator

    def __call__(self, name: str) -> Any:
        if name not in _MAKERS:
            raise LookupError(f"no rule makes the input {name!r}")
        return _MAKERS[name](self)

    def noise(self, *shape: int) -> Tensor:
        return torch.randn(self.batch, *shape, generator=self.generator)

    def tokens(self, n: int) -> Tensor:
        return torch.randint(_FIRST, _LAST, (self.batch, n), generator=self.generator)

    def find(self, *names: str, default: Any = None) -> Any:
        """The first of these values that the configuration, or one nested in it, has."""
        waiting = [self.config]
        while waiting:
            config = waiting.pop(0)
            for name in names:
                value = getattr(config, name, None)
                if value is not None:
                    return value
            waiting += [
                c for k in getattr(config, "sub_configs", ()) if (c := getattr(config, k, None))
            ]
        return default

    def pixels(self, *lead: int) -> Tensor:
        size = self.find("image_size", "pretrain_image_size", "input_size", default=64)
        height, width = size if isinstance(size, list | tuple) else (size, size)
        return self.noise(*lead, self.find("num_channels", "in_channels", default=3), height, width)

    def features(self) -> Tensor:
        """A spectrogram, mel channels first as Whisper reads it, or last."""
        mel = self.find(
            "num_mel_bins", "n_mel_bins", "feature_size", "input_feat_size", "input_dim", default=16
        )
        longest = self.find("max_source_positions")
        return self.noise(mel, 2 * longest) if longest else self.noise(32, mel)


_MAKERS: dict[str, Callable[[_Maker], Any]] = {
    "input_ids": lambda m: m.tokens(TOKENS),
    "decoder_input_ids": lambda m: m.tokens(_TARGET_TOKENS),
    "pixel_values": lambda m: m.pixels(),
    "pixel_values_videos": lambda m: m.pixels(m.find("num_frames", default=4)),
    "input_features": lambda m: m.features(),
    "input_values": lambda m: m.noise(800),
    "inputs_embeds": lambda m: m.noise(TOKENS, m.find("hidden_size", "d_model")),
    "hidden_states": lambda m: m.noise(TOKENS, m.find("hidden_size", "d_model")),
}
