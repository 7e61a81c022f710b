"""Random inputs for a tiny model of any family, by the names its forward asks for."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from conwalk.models import inference
from family_rows import INPUTS

TOKENS = 12
_TARGET_TOKENS = 9
_FIRST, _LAST = 5, 90
_SAMPLES = 1600
_GRID = 4
_PLACEHOLDERS = {"image": ("image",), "video": ("video",), "audio": ("audio", "speech")}


def candidates(model: Any) -> Iterator[tuple[str, ...]]:
    """Names of inputs with which a model may run, the fullest first."""
    if model.config.model_type in INPUTS:
        yield INPUTS[model.config.model_type]
        return
    known = inspect.signature(model.forward).parameters
    main = model.main_input_name
    needed = [
        n for n, p in known.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    target = model.config.is_encoder_decoder and "decoder_input_ids" in known
    tail = [*needed, *(["decoder_input_ids"] if target else [])]
    beside = [n for n in _BESIDE if n in known]
    # a text model takes hidden states of another one only if it is made a decoder
    tail += [n for n in beside if (n, main) != ("encoder_hidden_states", "input_ids")]
    sensed = [n for n in _SENSES if n in known and n != main]
    for extra in (
        ["input_ids", sensed[0]] if sensed and "input_ids" in known else None,
        sensed[:1],
        [],
    ):
        if extra is None:
            continue
        grid = [n for n in _GRIDS if n in known] if extra or main not in ("input_ids",) else []
        yield tuple(dict.fromkeys(n for n in (main, *extra, *tail, *grid) if n in known))


def inputs_of(model: nn.Module, names: Sequence[str], seed: int = 1) -> dict[str, Any]:
    """Random inputs for a model of ``family_build``.

    Args:
        model: the model.
        names: of the inputs.
        seed: the same seed gives the same inputs.

    Returns:
        Keyword arguments of its forward.
    """
    alone = (
        len(names) == 1 and "pixtral" not in model.config.model_type
    ) or "decoder_input_ids" in names
    make = _Maker(model, names, 2 if alone else 1, torch.Generator().manual_seed(seed))
    given = {name: make(name) for name in names}
    return _with_placeholders(model, given)


class _Maker:
    """Makes the named inputs of one model."""

    def __init__(
        self, model: Any, names: Sequence[str], batch: int, generator: torch.Generator
    ) -> None:
        self.model = model
        self.config = model.config
        self.names = names
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

    @property
    def packed(self) -> bool:
        """Whether images come as one row of patches, with a grid beside them."""
        return any(n in _GRIDS for n in self.names)

    def pixels(self, *lead: int) -> Tensor:
        channels = self.find("num_channels", "in_channels", default=3)
        if self.packed:
            patch, depth = (
                _side(self.find("patch_size")),
                _side(self.find("temporal_patch_size", default=1)),
            )
            width = channels * depth * patch * patch
            return torch.randn(_GRID * _GRID, width, generator=self.generator)
        size = self.find("image_size", "pretrain_image_size", "input_size", default=64)
        height, width = size if isinstance(size, list | tuple) else (size, size)
        if self.config.model_type.startswith("siglip2"):
            return self.noise(16, channels * self.find("patch_size") ** 2)
        lead = _LEADING_PIXELS.get(self.config.model_type, lead)
        return self.noise(*lead, channels, height, width)

    def waves(self) -> Tensor:
        """A recording: samples alone, with a channel axis, or as a spectrogram."""
        if self.config.model_type in _CODECS:
            return self.noise(1, _SAMPLES)
        if self.config.model_type in _SPECTROGRAMS:
            return self.noise(32, self.find("num_mel_bins"))
        return self.noise(_SAMPLES)

    def series(self) -> Tensor:
        """Past values of a series: one each time step, or several."""
        several = self.find("num_input_channels")
        length = self.find("context_length", default=16)
        lags = self.find("lags_sequence")
        length += max(lags) if lags else 0
        return self.noise(length, several) if several else self.noise(length)

    def beside_series(self) -> Tensor:
        past = self.series()
        return self.noise(past.shape[1], self.find("num_time_features", default=0))

    def features(self) -> Tensor:
        """A spectrogram, mel channels first as Whisper reads it, or last."""
        mel = self.find(
            "num_mel_bins", "n_mel_bins", "feature_size", "input_feat_size", "input_dim",
            "feature_projection_input_dim", default=16,
        )  # fmt: skip
        longest = self.find("max_source_positions")
        kind = self.config.model_type
        if kind in _LAST_MEL:
            return self.noise(64, mel * _LAST_MEL[kind])
        if kind in _FIRST_MEL:
            return self.noise(mel, 64)
        if kind in _IMAGE_MEL:
            return self.noise(1, 32, mel)
        return self.noise(mel, 2 * longest) if longest else self.noise(64, mel)

    def patches(self) -> Tensor:
        """Rows of pixels with their row and column in front."""
        side = self.find("patch_size")
        pixels = self.noise(12, 3 * side * side)
        places = torch.stack([torch.arange(12) // 4 + 1, torch.arange(12) % 4 + 1], -1)
        return torch.cat([places.expand(self.batch, -1, -1).float(), pixels], -1)

    def boxes(self) -> Tensor:
        corners = torch.randint(0, 40, (self.batch, TOKENS, 4), generator=self.generator)
        corners[..., 2:] += corners[..., :2]
        return corners


def _side(size: Any) -> int:
    return size[0] if isinstance(size, list | tuple) else size


def _grid(_: _Maker) -> Tensor:
    return torch.tensor([[1, _GRID, _GRID]])


_LEADING_PIXELS = {
    "timesformer": (4,), "videomae": (4,), "vivit": (4,), "xclip": (4,), "idefics": (1,),
    "lightglue": (2,), "superglue": (2,),
}  # fmt: skip
_CODECS = frozenset(
    [
        "encodec",
        "dac",
        "mimi",
        "mimi_encoder",
        "xcodec",
        "pe_audio_encoder",
        "pe_audio",
        "omniasr_audio",
        "omniasr_ctc",
        "wavtokenizer",
        "wavtokenizer_encoder",
        "vibevoice_acoustic_tokenizer",
        "pocket_tts_audio_tokenizer",
        "pocket_tts_audio_tokenizer_encoder",
    ]
)
_SPECTROGRAMS = frozenset(["audio-spectrogram-transformer", "speecht5"])
_LAST_MEL = {"speech_to_text": 1, "wav2vec2-bert": 1, "granite_speech5_ctc": 2,
             "granite_speech5_encoder": 2}  # fmt: skip
_FIRST_MEL = frozenset(["clvp", "glmasr_encoder", "voxtral_realtime", "voxtral_realtime_encoder"])
_IMAGE_MEL = frozenset(["clap", "clap_audio_model"])
_SENSES = ("pixel_values", "input_features", "input_values", "pixel_values_videos")
_BESIDE = (
    "bbox", "input_features_mask", "visual_feats", "visual_pos", "encoder_hidden_states",
    "future_values", "future_time_features", "qformer_input_ids", "aspect_ratio_ids",
    "patch_attention_mask", "target_sizes",
)  # fmt: skip
_GRIDS = ("image_grid_thw", "grid_thw", "image_grid_hws", "grid_hws")
_MAKERS: dict[str, Callable[[_Maker], Any]] = {
    "input_ids": lambda m: m.tokens(TOKENS),
    "decoder_input_ids": lambda m: m.tokens(_TARGET_TOKENS),
    "pixel_values": lambda m: m.pixels(),
    "pixel_values_videos": lambda m: m.pixels(m.find("num_frames", default=4)),
    "input_features": lambda m: m.features(),
    "input_values": lambda m: m.waves(),
    "past_values": lambda m: m.series(),
    "past_time_features": lambda m: m.beside_series(),
    "past_observed_mask": lambda m: torch.ones_like(m.series()),
    "future_values": lambda m: m.noise(m.find("prediction_length")),
    "future_time_features": lambda m: m.noise(
        m.find("prediction_length"), m.find("num_time_features", default=0)
    ),
    "past_values_padding": lambda m: torch.zeros(m.batch, m.series().shape[1] * 2),
    "freq": lambda m: torch.zeros(m.batch, 1, dtype=torch.long),
    "qformer_input_ids": lambda m: m.tokens(5),
    "flattened_patches": lambda m: m.patches(),
    "pixel_attention_mask": lambda m: torch.ones(m.batch, 16, dtype=torch.long),
    "spatial_shapes": lambda m: torch.full((m.batch, 2), 4),
    "aspect_ratio_ids": lambda m: torch.ones(m.batch, 1, dtype=torch.long),
    "aspect_ratio_mask": lambda m: torch.ones(m.batch, 1, 4, dtype=torch.long),
    "target_sizes": lambda m: torch.full((m.batch, 2), 4),
    "audio_mel": lambda m: m.noise(64, m.find("input_feat_size")),
    "audio_mel_mask": lambda m: torch.zeros(m.batch, 64, dtype=torch.bool),
    "mm_token_type_ids": lambda m: torch.zeros(m.batch, TOKENS, dtype=torch.long),
    "latents": lambda m: m.noise(TOKENS, m.find("hidden_size")),
    "states": lambda m: m.noise(4, m.find("state_dim")),
    "actions": lambda m: m.noise(4, m.find("act_dim")),
    "rewards": lambda m: m.noise(4, 1),
    "returns_to_go": lambda m: m.noise(4, 1),
    "timesteps": lambda m: torch.arange(4).expand(m.batch, 4),
    "attention_mask": lambda m: torch.ones(m.batch, TOKENS, dtype=torch.long),
    "inputs_embeds": lambda m: m.noise(TOKENS, m.find("hidden_size", "d_model")),
    "hidden_states": lambda m: (
        m.pixels() if m.packed else m.noise(TOKENS, m.find("hidden_size", "d_model"))
    ),
    "query_embeds": lambda m: m.noise(6, m.find("hidden_size")),
    "encoder_hidden_states": lambda m: m.noise(10, m.find("encoder_hidden_size", "hidden_size")),
    "bbox": lambda m: m.boxes(),
    "input_features_mask": lambda m: torch.ones(m.batch, m.features().shape[-2], dtype=torch.long),
    "grid_thw": _grid,
    "image_grid_thw": _grid,
    "visual_feats": lambda m: m.noise(5, m.find("visual_feat_dim")),
    "visual_pos": lambda m: m.noise(5, 4).sigmoid(),
    "merge_sizes": lambda _: torch.tensor([1]),
}


@torch.no_grad()
def _with_placeholders(model: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Token ids that stand for the parts of an image or a recording put into the prompt."""
    ids = given.get("input_ids")
    if ids is None or len(given) < 2 or "decoder_input_ids" in given:
        return given
    for kind, words in _PLACEHOLDERS.items():
        numbers = [
            getattr(model.config, f"{kind}_token{end}", None) for end in ("_id", "_index", "_idx")
        ]
        token = next((n for n in numbers if n is not None), None)
        reader = next((r for w in words if (r := getattr(model, f"get_{w}_features", None))), None)
        if token is None or reader is None:
            continue
        wanted = inspect.signature(reader).parameters
        own = {k: v for k, v in given.items() if k in wanted and k != "input_ids"}
        if not any(torch.is_floating_point(v) for v in own.values()):
            continue
        with inference.eager(model):
            count = _rows(reader(**own))
        marks = torch.full((ids.shape[0], count // ids.shape[0]), token)
        return given | {"input_ids": torch.cat([ids[:, :3], marks, ids[:, 3:]], 1)}
    return given


def _rows(features: Any) -> int:
    """How many tokens an image or a recording makes."""
    if hasattr(features, "pooler_output") and features.pooler_output is not None:
        features = features.pooler_output
    if isinstance(features, Tensor):
        return features.numel() // features.shape[-1]
    if hasattr(features, "last_hidden_state"):
        return _rows(features.last_hidden_state)
    return sum(_rows(f) for f in features if f is not None)
