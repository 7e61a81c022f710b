"""GGUF files: the weights are those that were stored, and the conversion happens once."""

import hashlib
import logging
import multiprocessing
import re
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

import tiny_models
import tiny_sources
from conwalk import models
from conwalk.errors import OutputError, SourceError
from conwalk.models import gguf as converter


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.gguf"
    tiny_sources.save_gguf(file, tiny_sources.tiny_llama())
    return file


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONWALK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files converted so far."""
    converted = []
    convert = converter._convert

    def counted(file: Path, source: str, place: Path) -> None:
        converted.append(file)
        convert(file, source, place)

    monkeypatch.setattr(converter, "_convert", counted)
    return converted


@torch.no_grad()
def test_unquantised_files_give_back_the_model(tmp_path: Path, cache: Path):
    saved = tiny_sources.tiny_llama()
    tiny_sources.save_gguf(tmp_path / "f32.gguf", saved, "F32")
    model = models.load(tmp_path / "f32.gguf")
    inputs = tiny_models.tiny_inputs(saved, batch=2)
    assert torch.equal(model.module(**inputs).logits, saved(**inputs).logits)
    assert (model.kind, model.quantized) == ("gguf", False)
    assert model.module.config._attn_implementation == "eager"


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q5_1", "F16"])
def test_value_matrices_are_those_of_the_file(kind: str, tmp_path: Path, cache: Path):
    file = tmp_path / f"{kind}.gguf"
    stored = tiny_sources.save_gguf(file, tiny_sources.tiny_llama(), kind)
    model = models.load(str(file))
    loaded = dict(model.module.named_parameters())
    assert len(stored) == 2
    assert all(torch.equal(loaded[name], values) for name, values in stored.items())
    assert model.quantized == (kind != "F16")
    assert model.notes[0] == f"dequantised from GGUF (15 × {kind}, 5 × F32)"


def test_tokenizer_of_the_file(tiny: Path, cache: Path):
    assert models.load(tiny).require_tokenizer()("ab")["input_ids"] == [98]


def test_folder_with_one_gguf_file(tiny: Path, cache: Path):
    model = models.load(tiny.parent)
    assert (model.kind, model.source) == ("gguf", str(tiny.parent))


def test_converted_once(tiny: Path, cache: Path, conversions: list[Path]):
    first = models.load(tiny)
    moved = tiny.rename(tiny.with_name("other.gguf"))
    second = models.load(moved, dtype="float64")
    assert conversions == [tiny]
    digest = hashlib.sha256(moved.read_bytes()).hexdigest()
    assert first.weights_hash == second.weights_hash == f"sha256:{digest}"
    assert second.dtype == torch.float64
    assert torch.equal(first.module.lm_head.weight.double(), second.module.lm_head.weight)


def test_another_file_is_converted_anew(tiny: Path, cache: Path, conversions: list[Path]):
    models.load(tiny)
    other = tiny.with_name("other.gguf")
    tiny_sources.save_gguf(other, tiny_sources.tiny_llama(), "Q4_0")
    assert models.load(other).weights_hash != models.load(tiny).weights_hash
    assert conversions == [tiny, other]


def test_another_version_of_transformers_converts_anew(
    tiny: Path, cache: Path, conversions: list[Path], monkeypatch: pytest.MonkeyPatch
):
    models.load(tiny)
    monkeypatch.setattr("transformers.__version__", "99.0")
    models.load(tiny)
    assert conversions == [tiny, tiny]
    assert len(list((cache / "gguf").iterdir())) == 2


def test_cache_dir_goes_before_the_environment(tiny: Path, cache: Path, tmp_path: Path):
    models.load(tiny, cache_dir=tmp_path / "mine")
    assert not cache.exists()
    assert len(list((tmp_path / "mine" / "gguf").iterdir())) == 1


@pytest.mark.parametrize("victim", ["model.safetensors", "conwalk.json"])
def test_a_damaged_copy_is_made_anew(victim: str, tiny: Path, cache: Path, conversions: list[Path]):
    before = models.load(tiny).module.lm_head.weight.clone()
    (copy,) = (cache / "gguf").glob(f"*/{victim}")
    copy.unlink() if victim == "conwalk.json" else copy.write_bytes(copy.read_bytes()[:-9])
    assert torch.equal(models.load(tiny).module.lm_head.weight, before)
    assert conversions == [tiny, tiny]


def test_a_conversion_that_fails_leaves_nothing(
    tiny: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transformers.PreTrainedModel.save_pretrained", full)
    with pytest.raises(OutputError, match=r"cannot be written to \(No space left on device\); set"):
        models.load(tiny)
    assert list((cache / "gguf").iterdir()) == []


def test_a_cache_that_is_a_file(tiny: Path, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"set CONWALK_CACHE or pass cache_dir="):
        models.load(tiny, cache_dir=tmp_path / "file")


def _load_in_process(file: Path, cache_dir: Path, start: object, done: object) -> None:
    start.wait()
    done.put(models.load(file, cache_dir=cache_dir).weights_hash)


@pytest.mark.slow
def test_two_processes_convert_at_once(tiny: Path, tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    start, done = context.Barrier(2), context.Queue()
    arguments = (tiny, tmp_path / "cache", start, done)
    workers = [context.Process(target=_load_in_process, args=arguments) for _ in range(2)]
    for worker in workers:
        worker.start()
    hashes = [done.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert hashes[0] == hashes[1]
    (kept,) = (tmp_path / "cache" / "gguf").iterdir()
    assert (kept / "model.safetensors").is_file()


def test_one_log_line_and_no_bars(
    tiny: Path,
    cache: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
):
    capfd.readouterr()
    with caplog.at_level(logging.INFO, logger="conwalk"):
        models.load(tiny)
        models.load(tiny)
    assert capfd.readouterr() == ("", "")
    (line,) = (record.getMessage() for record in caplog.records if record.name != "transformers")
    assert line.startswith(f"{tiny}: dequantising once into {cache}")


def test_the_gguf_package_is_left_as_it_was(tiny: Path, cache: Path):
    from transformers import modeling_gguf_pytorch_utils as loader

    before = gguf.GGUFReader, loader.tqdm
    models.load(tiny)
    assert (gguf.GGUFReader, loader.tqdm) == before


def _message(file: Path) -> str:
    with pytest.raises(SourceError) as caught:
        models.load(file)
    text = str(caught.value)
    assert "\n" not in text
    assert ";" in text
    return text


def test_not_a_gguf_file(tmp_path: Path):
    (tmp_path / "page.gguf").write_bytes(b"<!DOCTYPE html>")
    said = "page.gguf is not a GGUF file (it starts b'<!DO'); check that the download is complete"
    assert said in _message(tmp_path / "page.gguf")


def test_an_empty_file(tmp_path: Path):
    (tmp_path / "none.gguf").touch()
    assert "none.gguf is empty (0 bytes); download it again" in _message(tmp_path / "none.gguf")


def test_the_weight_file_in_place_of_its_folder(tmp_path: Path):
    tiny_sources.save_folder(tmp_path)
    assert "is not a GGUF file" in (text := _message(tmp_path / "model.safetensors"))
    assert text.endswith("give the folder it lies in")


@pytest.mark.parametrize("kept", [0.02, 0.5, 0.99])
def test_a_file_cut_short(kept: float, tiny: Path, cache: Path):
    content = tiny.read_bytes()
    tiny.write_bytes(content[: int(len(content) * kept)])
    assert re.search(r"tiny.gguf is cut short or damaged \(.*\); download", _message(tiny))


def test_an_unknown_architecture(tmp_path: Path, cache: Path):
    file = tmp_path / "zork.gguf"
    writer = gguf.GGUFWriter(file, "zork")
    writer.add_tensor("a.weight", np.zeros((4, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    text = _message(file)
    assert "zork.gguf (architecture 'zork', tensor types F32) cannot be dequantised" in text
    assert "use the model's safetensors" in text


def test_an_unknown_tensor_type(tiny: Path, cache: Path):
    name = b"blk.0.attn_v.weight"
    content = bytearray(tiny.read_bytes())
    place = content.index(name) + len(name) + 4 + 2 * 8
    content[place : place + 4] = (999).to_bytes(4, "little")
    tiny.write_bytes(content)
    text = _message(tiny)
    assert "has a tensor type that the gguf package does not know" in text
    assert "999" in text


def test_a_tensor_type_that_cannot_be_dequantised(
    tiny: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(gguf.quants._type_traits, gguf.GGMLQuantizationType.Q8_0)
    text = _message(tiny)
    assert "(architecture 'llama', tensor types Q8_0, F32) cannot be dequantised" in text
    assert "Q8_0 is not yet implemented" in text
