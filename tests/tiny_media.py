"""Tiny models of images and audio as they lie in a folder, with their processors."""

import wave
from pathlib import Path
from typing import Any

import numpy as np

from tiny_models import make_tiny
from tiny_sources import make_tokenizer

RATE = 16000
_LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
_SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def picture(seed: int = 0) -> Any:
    """A picture of 40 rows and 50 columns."""
    from PIL import Image

    points = np.random.default_rng(seed).integers(0, 255, (40, 50, 3), dtype=np.uint8)
    return Image.fromarray(points)


def tone(seconds: float = 0.5, rate: int = RATE) -> np.ndarray:
    """A sine of 440 Hz."""
    return (0.5 * np.sin(np.arange(round(seconds * rate)) * 2 * np.pi * 440 / rate)).astype(
        np.float32
    )


def save_vit(folder: Path) -> Path:
    """4 × 4 patches and a class token."""
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    make_tiny("vit").save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def save_clip(folder: Path) -> Path:
    """A tower for texts and one for 4 × 4 patches and a class token."""
    from transformers import CLIPConfig, CLIPModel, CLIPProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    text = {**_LAYERS, **_SPECIAL, "vocab_size": 100, "hidden_size": 64}
    vision = {**_LAYERS, "hidden_size": 48, "image_size": 32, "patch_size": 8}
    config = CLIPConfig(
        text_config={**text, "max_position_embeddings": 32},
        vision_config=vision,
        projection_dim=32,
    )
    CLIPModel(config).save_pretrained(folder)
    images = CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    CLIPProcessor(image_processor=images, tokenizer=make_tokenizer()).save_pretrained(folder)
    return folder


def save_whisper(folder: Path) -> Path:
    """50 positions for one second of sound, and a decoder."""
    from transformers import (
        WhisperConfig,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
    )

    config = WhisperConfig(
        **_SPECIAL,
        vocab_size=100,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        max_source_positions=50,
        max_target_positions=32,
        num_mel_bins=8,
        decoder_start_token_id=1,
    )
    WhisperForConditionalGeneration(config).save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=8, chunk_length=1).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def write_wav(file: Path, samples: np.ndarray, rate: int = RATE) -> Path:
    """Samples of 16 bits, one column a channel."""
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    with wave.open(str(file), "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes((samples * 32767).round().astype("<i2").tobytes())
    return file
