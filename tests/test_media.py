"""Images and audio as prompts: read, named by place and by time, and refused in one line."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import wavfile

import conwalk as cw
from conwalk.errors import InputError, SourceError, TextError
from conwalk.pipeline import media, media_files
from conwalk.pipeline.items import item_of
from conwalk.pipeline.media import Positions
from tiny_media import RATE, picture, save_clip, save_vit, save_whisper, tone, write_wav
from tiny_models import make_tiny

PATCHES = [f"patch {r},{c}" for r in range(4) for c in range(4)]


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return cw.load(save_vit(tmp_path_factory.mktemp("vit")))


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return cw.load(save_clip(tmp_path_factory.mktemp("clip")))


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return cw.load(save_whisper(tmp_path_factory.mktemp("whisper")))


def names(found: Any, coordinate: str, prompt: int = 0) -> list[str]:
    return [name for name in found[coordinate].values[prompt] if name]


def test_an_image_is_what_its_processor_makes_of_it(vit: Any) -> None:
    pictures = [picture(0), picture(1)]
    found = cw.analyze(vit, pictures, batch_size=2)
    processor = vit.require_processor("images")
    ready = cw.analyze(vit, dict(processor(images=pictures, return_tensors="pt")))
    assert names(found, "token_text") == ["CLS", *PATCHES]
    assert names(ready, "token_text", 1) == ["CLS", *PATCHES]
    assert list(found.n_tokens.values) == [17, 17]
    assert np.array_equal(found.entropy, ready.entropy)
    assert float(abs(found.entropy[0] - found.entropy[1]).max()) > 1e-4
    assert json.loads(found.attrs["texts"]) == [None, None]


def test_the_position_of_the_whole_image_is_left_out_with_special_tokens(vit: Any) -> None:
    found = cw.analyze(vit, picture(), exclude_special=True)
    assert names(found, "token_text") == PATCHES
    assert 0 < float(found.special_share.mean()) < 0.5


def test_what_positions_of_an_image_are() -> None:
    assert Positions((1, 2)).labels(2) == ("patch 0,0", "patch 0,1")
    assert Positions((1, 2), 1).labels(4) == ("CLS", "register 0", "patch 0,0", "patch 0,1")
    assert Positions((1, 2), 1).special(4) == (True, True, False, False)
    # an image cut into other patches than the configuration says
    assert Positions((1, 2)).labels(7) == tuple("0123456")
    assert Positions((2, 2)).labels(3) == tuple("012")


def test_a_grey_or_transparent_picture_is_read_in_colour(vit: Any) -> None:
    for mode in ("L", "RGBA", "P"):
        assert cw.analyze(vit, picture().convert(mode), layers=[0]).sizes["token"] == 17


def test_an_image_with_a_text(clip: Any) -> None:
    found = cw.analyze(clip, [{"image": picture(), "text": "w1 w2 w3", "id": "both"}])
    assert list(found.prompt.values) == ["both"]
    assert names(found, "token_text") == ["w1", "w2", "w3"]
    assert names(found, "token_text_other") == ["CLS", *PATCHES]
    assert sorted(set(found.query_tokens.values)) == ["token_text", "token_text_other"]
    assert json.loads(found.attrs["texts"]) == ["w1 w2 w3"]
    ours = found.isel(layer=found.query_tokens.values == "token_text")
    assert float(ours.entropy.max()) <= np.log(3) + 1e-6


def test_audio_is_named_by_time(whisper: Any) -> None:
    found = cw.analyze(whisper, tone())
    assert names(found, "token_text")[:3] == ["0.00 s", "0.02 s", "0.04 s"]
    assert names(found, "token_text")[-1] == "0.98 s"
    assert names(found, "token_text_target") == ["<s>"]
    by_layer = dict(zip(found["path"].values, found["key_tokens"].values, strict=True))
    assert by_layer["model.encoder.layers.0.self_attn"] == "token_text"
    assert by_layer["model.decoder.layers.0.self_attn"] == "token_text_target"
    assert by_layer["model.decoder.layers.0.encoder_attn"] == "token_text"
    (note,) = json.loads(found.attrs["input_notes"])
    assert note == "prompt 0: of the 1.00 s that the model reads, 0.50 s are audio"


def test_a_decoder_reads_its_start_token_and_then_the_text(whisper: Any) -> None:
    found = cw.analyze(whisper, [{"audio": tone(), "text": "w4 w5"}])
    assert names(found, "token_text_target") == ["<s>", "w4", "w5"]
    assert cw.verify(whisper, [{"audio": tone(), "text": "w4 </s>"}]).exact


def test_more_audio_than_the_model_reads_is_said(whisper: Any) -> None:
    notes = json.loads(cw.analyze(whisper, tone(1.5), layers=[0]).attrs["input_notes"])
    assert notes == ["prompt 0: the model reads the first 1.00 s of 1.50 s"]


def test_times_are_as_fine_as_the_positions() -> None:
    assert Positions(seconds=0.01).labels(5) == tuple(f"{0.002 * i:.3f} s" for i in range(5))
    assert Positions(seconds=10.0).labels(2) == ("0.00 s", "5.00 s")


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.uint8, np.float32])
def test_samples_of_every_kind_are_the_same_sound(kind: type, tmp_path: Path) -> None:
    sound = tone(0.1)
    if kind is np.float32:
        stored = sound
    elif kind is np.uint8:
        stored = (sound * 127 + 128).round().astype(np.uint8)
    else:
        stored = (sound.astype(np.float64) * np.iinfo(kind).max).astype(kind)
    wavfile.write(tmp_path / "a.wav", RATE, stored)
    samples, rate, notes = media_files.read_audio(tmp_path / "a.wav")
    assert (rate, notes, samples.dtype) == (RATE, (), np.float32)
    assert np.abs(samples - sound).max() < (0.01 if kind is np.uint8 else 1e-4)


def test_channels_are_mixed_and_rates_are_changed_and_both_are_said(
    whisper: Any, tmp_path: Path
) -> None:
    sound = tone(0.5, 44100)
    file = write_wav(tmp_path / "a.wav", np.stack([sound, sound], 1), 44100)
    found = cw.analyze(whisper, [{"audio": str(file)}], layers=[0])
    notes = json.loads(found.attrs["input_notes"])
    assert notes[0] == "prompt 0: the mean of 2 channels is read"
    assert notes[1] == "prompt 0: resampled from 44100 to 16000 Hz, which the model reads"
    own, again, slow = (
        media.read(whisper, item_of(given)).inputs["input_features"]
        for given in (tone(), {"audio": sound, "sampling_rate": 44100}, sound)
    )
    assert float((again - own).abs().mean()) < 0.1 * float((slow - own).abs().mean())


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        ("vit", {"image": 1, "audio": 2}, "it has both an image and audio"),
        ("vit", {"image": 1, "ids": [1]}, "goes with one text, not with token ids or a pair"),
        ("vit", {"text": "b", "image": 0}, "reads images and no text with them"),
        ("vit", {"audio": [0.5]}, "ViTModel reads no audio"),
        ("vit", {"image": "none.png"}, "cannot read image file none.png: No such file"),
        ("whisper", {"image": 1}, "WhisperForConditionalGeneration reads no images"),
        ("whisper", {"audio": []}, "audio of shape (0,) is not one row of samples"),
        ("whisper", {"audio": [[1.0], [2.0]]}, "audio of shape (2, 1) is not one row"),
        ("whisper", {"audio": [float("nan")]}, "infinite or none; mend them"),
        ("whisper", {"audio": [0.5], "sampling_rate": 0}, "a sampling rate of 0 Hz is none"),
        ("whisper", {"audio": "none.wav"}, "cannot read audio file none.wav: no such file"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(
    request: pytest.FixtureRequest, model: str, given: dict[str, Any], message: str
) -> None:
    if given.get("image") == 0:
        given = {**given, "image": picture()}
    with pytest.raises(TextError) as refusal:
        cw.analyze(request.getfixturevalue(model), [given])
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_model_without_a_processor_says_how_to_give_one(vit: Any) -> None:
    with pytest.raises(
        SourceError, match=r"no processor was found .* \(none was given\); pass pro"
    ):
        cw.analyze(make_tiny("vit"), picture())
    given = cw.load(make_tiny("vit"), processor=vit.require_processor("images"))
    assert cw.analyze(given, picture(), layers=[0]).sizes["token"] == 17


def test_a_folder_without_a_processor_is_named(tmp_path: Path) -> None:
    make_tiny("vit").save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"has no processor_config.json or preprocessor_config"):
        cw.analyze(str(tmp_path), picture())


def test_files_that_are_no_image_and_no_sound(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("no picture")
    (tmp_path / "a.wav").write_text("no sound")
    (tmp_path / "a.mp3").write_text("no sound")
    with pytest.raises(TextError, match=r"a.png is no image that Pillow knows"):
        media_files.read_image(tmp_path / "a.png")
    with pytest.raises(TextError, match=r"a.wav is no WAV file that can be read"):
        media_files.read_audio(tmp_path / "a.wav")
    with pytest.raises(TextError, match=r"cannot read audio file .*: it is a folder"):
        media_files.read_audio(tmp_path)


def test_without_pillow_or_soundfile_their_installation_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(
        TextError, match=r"takes Pillow; install it \(pip install 'conwalk\[images\]"
    ):
        media_files.read_image(tmp_path / "a.png")
    (tmp_path / "a.mp3").write_text("")
    with pytest.raises(TextError, match=r"a.mp3 is no .wav; convert it, or install soundfile"):
        media_files.read_audio(tmp_path / "a.mp3")


def test_which_arrays_are_images_and_which_are_sound() -> None:
    assert item_of(np.zeros((4, 4, 3), np.uint8)).image is not None
    assert item_of(tone(0.01)).audio is not None
    assert item_of(torch.zeros(5)).audio is not None
    assert item_of(np.array([1, 2])).ids == (1, 2)
