"""Image and audio files as what prompts are made of."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conwalk.errors import TextError

_MIDDLE_OF_BYTES = 128


def read_image(path: Path) -> Any:
    """The picture in a file.

    Raises:
        TextError: there is no such file, it is no image, or Pillow is not installed.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise TextError(
            f"image file {path}: reading images takes Pillow; install it (pip install "
            "'conwalk[images]')"
        ) from error
    try:
        with Image.open(path) as picture:
            picture.load()
            return picture.convert("RGB")
    except UnidentifiedImageError as error:
        raise TextError(f"image file {path} is no image that Pillow knows") from error
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TextError(f"cannot read image file {path}: {reason}") from error


def read_audio(path: Path) -> tuple[NDArray[np.float32], int, tuple[str, ...]]:
    """The samples in a file, as one channel between -1 and 1, their rate in Hz, and notes.

    WAV files of whole numbers or floats are read as they are; other formats by soundfile, where it
    is installed.

    Raises:
        TextError: there is no such file, or it is no audio that can be read here.
    """
    if not path.is_file():
        state = "it is a folder" if path.is_dir() else "no such file"
        raise TextError(f"cannot read audio file {path}: {state}")
    rate, samples = _wav(path) if path.suffix.lower() == ".wav" else _other(path)
    if samples.dtype.kind == "u":
        samples = (samples.astype(np.float32) - _MIDDLE_OF_BYTES) / _MIDDLE_OF_BYTES
    elif samples.dtype.kind == "i":
        samples = samples.astype(np.float64) / (1 << (8 * samples.dtype.itemsize - 1))
    notes: tuple[str, ...] = ()
    if samples.ndim > 1:
        if samples.shape[1] > 1:
            notes = (f"the mean of {samples.shape[1]} channels is read",)
        samples = samples.mean(1)
    return samples.astype(np.float32), rate, notes


def _wav(path: Path) -> tuple[int, NDArray[Any]]:
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings():
            # chunks that hold no sound are none of our business
            warnings.simplefilter("ignore", wavfile.WavFileWarning)
            rate, samples = wavfile.read(path)
    except Exception as error:
        raise TextError(f"audio file {path} is no WAV file that can be read: {error}") from error
    return int(rate), samples


def _other(path: Path) -> tuple[int, NDArray[Any]]:
    try:
        import soundfile  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise TextError(
            f"audio file {path} is no .wav; convert it, or install soundfile (pip install "
            "soundfile)"
        ) from error
    try:
        samples, rate = soundfile.read(path, dtype="float32")
    except Exception as error:
        raise TextError(f"cannot read audio file {path}: {error}") from error
    return int(rate), samples
