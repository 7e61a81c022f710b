"""Images and audio as inputs of a model, and what its positions are then."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conwalk.errors import TextError
from conwalk.models import Model
from conwalk.models.encoding import encode
from conwalk.models.tokenizer import one_line
from conwalk.pipeline.items import Item

CLS = "CLS"
_IDS = "input_ids"
_IMAGE_AXES = 4
_DIGITS = 2


@dataclass(frozen=True)
class Positions:
    """What the positions are at which a model reads no token of a text.

    Attributes:
        grid: rows and columns of the patches of an image.
        registers: how many positions of its own the model has besides one for the whole image.
        seconds: how long the audio is that the model reads.
    """

    grid: tuple[int, int] | None = None
    registers: int = 0
    seconds: float | None = None

    def labels(self, n: int) -> tuple[str, ...]:
        """``patch 2,5`` (row, column), ``1.28 s``, or a number where neither fits.

        Args:
            n: how many positions there are.
        """
        if self.seconds is not None:
            digits = max(_DIGITS, math.ceil(-math.log10(self.seconds / n))) if n else _DIGITS
            return tuple(f"{i * self.seconds / n:.{digits}f} s" for i in range(n))
        if self.grid is None or not 0 <= n - self.grid[0] * self.grid[1] <= 1 + self.registers:
            return tuple(str(i) for i in range(n))
        rows, columns = self.grid
        own = [CLS, *(f"register {i}" for i in range(self.registers))][: n - rows * columns]
        patches = product(range(rows), range(columns))
        return (*own, *(f"patch {r},{c}" for r, c in patches))

    def special(self, n: int) -> tuple[bool, ...]:
        """Which positions are no part of the image or the audio."""
        return tuple(name == CLS or name.startswith("register") for name in self.labels(n))


@dataclass(frozen=True)
class Media:
    """A prompt that is more than a text.

    Attributes:
        inputs: of the model, for this prompt alone.
        ids: the tokens of the text that goes with it, if there is one.
        positions: what the other positions are.
        notes: one line each.
    """

    inputs: Mapping[str, Any]
    ids: tuple[int, ...]
    positions: Positions
    notes: tuple[str, ...] = ()


def read(model: Model, item: Item) -> Media:
    """Make an image or audio, and the text that goes with it, into inputs.

    Raises:
        TextError: the model does not read it, or not without a text, or it cannot be processed.
        SourceError: no processor was found with the model.
    """
    if item.image is not None and item.audio is not None:
        raise TextError("it has both an image and audio; give one of the two")
    if item.ids is not None or item.pair is not None:
        raise TextError("an image or audio goes with one text, not with token ids or a pair")
    return _image(model, item) if item.image is not None else _audio(model, item)


def _image(model: Model, item: Item) -> Media:
    processor = model.require_processor("images")
    alone = getattr(processor, "image_processor", None if _reads_audio(processor) else processor)
    if alone is None:
        raise TextError(f"{_named(model)} reads no images")
    if item.text is not None and alone is processor:
        raise TextError(f"{_named(model)} reads images and no text with them; leave the text out")
    if item.text is None and getattr(model.module, "main_input_name", "") == _IDS:
        raise TextError(
            f"{_named(model)} reads a text with every image; give both (--image FILE --prompt TEXT)"
        )
    if item.text is None:
        given = _processed(alone, "image", images=_rgb(item.image))
    else:
        given = _processed(processor, "image", images=_rgb(item.image), text=item.text)
    inputs = _inputs(model, given)
    ids = inputs[_IDS][0].tolist() if _IDS in inputs else []
    return Media(inputs, tuple(ids), patches(model, inputs))


def _audio(model: Model, item: Item) -> Media:
    processor = model.require_processor("audio")
    extractor = getattr(processor, "feature_extractor", processor)
    if not _reads_audio(extractor):
        raise TextError(f"{_named(model)} reads no audio")
    rate = int(extractor.sampling_rate)
    samples, notes = _samples(item, rate)
    given = _processed(extractor, "audio", raw_speech=samples, sampling_rate=rate)
    read_seconds = _seconds(given, extractor, rate)
    heard = len(samples) / rate
    if read_seconds < heard:
        notes += (f"the model reads the first {read_seconds:.2f} s of {heard:.2f} s",)
    elif read_seconds > heard:
        notes += (f"of the {read_seconds:.2f} s that the model reads, {heard:.2f} s are audio",)
    given |= _decoder(model, item.text)
    inputs = _inputs(model, given)
    return Media(inputs, (), Positions(seconds=read_seconds), notes)


def _reads_audio(processor: Any) -> bool:
    return hasattr(getattr(processor, "feature_extractor", processor), "sampling_rate")


def _named(model: Model) -> str:
    return type(model.module).__name__


def _rgb(image: Any) -> Any:
    """A palette, grey or transparent picture as models know pictures."""
    return image.convert("RGB") if hasattr(image, "convert") else image


def _processed(processor: Callable[..., Any], what: str, **given: Any) -> dict[str, Any]:
    try:
        return dict(processor(**given, return_tensors="pt"))
    except Exception as error:
        raise TextError(
            f"{type(processor).__name__} cannot read the {what} ({one_line(error)})"
        ) from error


def _inputs(model: Model, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those that the model takes, where it is and in its dtype."""
    known = signature(model.module.forward).parameters
    takes_all = any(p.kind is Parameter.VAR_KEYWORD for p in known.values())
    inputs: dict[str, Any] = {}
    for name, value in given.items():
        if not isinstance(value, Tensor) or not (takes_all or name in known):
            continue
        dtype = model.dtype if value.is_floating_point() else value.dtype
        inputs[name] = value.to(model.device, dtype)
    return inputs


def patches(model: Model, inputs: Mapping[str, Any]) -> Positions:
    """The patches that a model cuts the pixels of a pass into, as far as its configuration says."""
    config = getattr(model.module, "config", None)
    config = getattr(config, "vision_config", config)
    size: Any = getattr(config, "patch_size", None)
    pixels = inputs.get("pixel_values")
    if size is None or not isinstance(pixels, Tensor) or pixels.dim() != _IMAGE_AXES:
        return Positions()
    height, width = size if isinstance(size, list | tuple) else (size, size)
    grid = (pixels.shape[-2] // height, pixels.shape[-1] // width)
    return Positions(grid, int(getattr(config, "num_register_tokens", 0) or 0))


def _samples(item: Item, rate: int) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """One channel of finite samples at the rate the model reads."""
    from scipy.signal import resample_poly

    given = item.audio.numpy() if isinstance(item.audio, Tensor) else np.asarray(item.audio)
    if given.ndim != 1 or not given.size:
        raise TextError(f"audio of shape {given.shape} is not one row of samples; mix it down")
    samples = given.astype(np.float32)
    if not np.isfinite(samples).all():
        raise TextError("its audio holds numbers that are infinite or none; mend them first")
    own = rate if item.sampling_rate is None else int(item.sampling_rate)
    if own == rate:
        return samples, ()
    if own < 1:
        raise TextError(f"a sampling rate of {own} Hz is none; give that of the audio")
    shared = math.gcd(own, rate)
    again = resample_poly(samples, rate // shared, own // shared).astype(np.float32)
    return again, (f"resampled from {own} to {rate} Hz, which the model reads",)


def _seconds(given: Mapping[str, Any], extractor: Any, rate: int) -> float:
    """How long what the model reads is."""
    features = given.get("input_features", given.get("input_values"))
    if not isinstance(features, Tensor):
        raise TextError(f"{type(extractor).__name__} gives no features that are read here")
    hop = getattr(extractor, "hop_length", 1) if "input_features" in given else 1
    return features.shape[-1] * hop / rate


def _decoder(model: Model, text: str | None) -> dict[str, Tensor]:
    """What the decoder reads: its start token, and a text where one is given."""
    config = getattr(model.module, "config", None)
    start = getattr(config, "decoder_start_token_id", None)
    if not getattr(config, "is_encoder_decoder", False) or start is None:
        if text is not None:
            raise TextError(f"{_named(model)} reads audio and no text with it; leave the text out")
        return {}
    ids: tuple[int, ...] = (start,)
    if text is not None:
        encoded = encode(model.require_tokenizer(), text)
        # nothing is read after the end; and a tokenizer may put the start token first itself
        found = encoded.ids[: len(encoded.ids) - encoded.trailing]
        ids = found if found[:1] == ids else (*ids, *found)
    return {"decoder_input_ids": torch.tensor([ids])}
