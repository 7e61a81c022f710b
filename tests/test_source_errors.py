"""What is wrong with a source is said in one line that names the file and what to do."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import tiny_models
import tiny_sources
from conwalk import models
from conwalk.errors import InputError, SourceError


def _message(source: object, **options: object) -> str:
    with pytest.raises(SourceError) as caught:
        models.load(source, **options)
    text = str(caught.value)
    assert isinstance(caught.value, InputError)
    assert "\n" not in text
    assert ";" in text, "says what to do"
    return text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_sources.save_folder(tmp_path / "bert", words=False)


@pytest.mark.parametrize(
    "source", ["./nothing", "../nothing", "~/conwalk-nothing", "/nothing/here", "a/b/c"]
)
def test_missing_folder(source: str):
    expected = rf"^{re.escape(source)}: there is no such folder \(looked for /.*\); check the path$"
    assert re.match(expected, _message(source))


def test_missing_path_object():
    assert "there is no such folder" in _message(Path("nothing"))


def test_missing_gguf_file():
    assert "there is no such file (looked for /" in _message("model.gguf")


@pytest.mark.parametrize("source", ["", "two words", "organisation/na me", "https://x"])
def test_no_source_at_all(source: str):
    assert f"{source!r} is no model source; give a Hub id" in _message(source)


def test_folder_without_config(folder: Path):
    (folder / "config.json").unlink()
    assert f"{folder} has no config.json; give the folder that save_pretrained" in _message(folder)


def test_folder_around_the_model(folder: Path):
    assert f"has no config.json; did you mean {folder}?" in _message(folder.parent)


def test_folder_with_two_gguf_files(tmp_path: Path):
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    assert f"has no config.json; did you mean {tmp_path}/a.gguf?" in _message(tmp_path)


def test_adapter(folder: Path):
    (folder / "config.json").rename(folder / "adapter_config.json")
    assert "holds an adapter without its base model; merge the adapter" in _message(folder)


def test_folder_without_weights(folder: Path):
    (folder / "model.safetensors").unlink()
    text = _message(folder)
    assert f"{folder} has no weights (looked for model.safetensors, pytorch_model.bin" in text
    assert text.endswith("download or copy the weights too")


def test_folder_with_a_gguf_file_beside_the_config(folder: Path):
    (folder / "model.safetensors").rename(folder / "q4.gguf")
    assert "has no weights (looked for model.safetensors, pytorch_model.bin and their " in (
        text := _message(folder)
    )
    assert text.endswith(f"name the GGUF file: {folder}/q4.gguf")


def _empty(_: bytes) -> bytes:
    return b""


def _without_end(content: bytes) -> bytes:
    return content[:-100]


def _header_cut(content: bytes) -> bytes:
    return content[:100]


def _first_bytes(content: bytes) -> bytes:
    return content[:5]


def _with_more(content: bytes) -> bytes:
    return content + b"\0"


def _noise(_: bytes) -> bytes:
    return bytes(range(256)) * 10


def _pointer(_: bytes) -> bytes:
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_empty, "model.safetensors is empty (0 bytes); download it again"),
        (_without_end, r"model.safetensors is cut short \(\d+ bytes, its header promises \d+\);"),
        (_header_cut, "model.safetensors is cut short or is no safetensors file"),
        (_first_bytes, "model.safetensors is cut short or is no safetensors file"),
        (_noise, "model.safetensors is cut short or is no safetensors file"),
        (_with_more, r"model.safetensors is too long \(\d+ bytes, its header promises \d+\);"),
        (_pointer, "model.safetensors is a Git LFS pointer, not the weights; run `git lfs pull`"),
    ],
)
def test_damaged_weights(damage: Callable[[bytes], bytes], said: str, folder: Path):
    file = folder / "model.safetensors"
    file.write_bytes(damage(file.read_bytes()))
    said = said if "\\" in said else re.escape(said)
    assert re.search(said, _message(folder))


def test_missing_shard(tmp_path: Path):
    tiny_models.make_tiny("bert").save_pretrained(tmp_path, max_shard_size="100KB")
    shard = sorted(tmp_path.glob("model-*.safetensors"))[1]
    shard.unlink()
    said = f"{shard.name} is listed in the index but is not there; download it too"
    assert said in _message(tmp_path)


def test_damaged_shard(tmp_path: Path):
    tiny_models.make_tiny("bert").save_pretrained(tmp_path, max_shard_size="100KB")
    shard = sorted(tmp_path.glob("model-*.safetensors"))[1]
    shard.write_bytes(shard.read_bytes()[:-1])
    assert f"{shard.name} is cut short" in _message(tmp_path)


def test_damaged_pickle(folder: Path):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"nothing of the kind")
    assert "transformers cannot load the model (bert)" in _message(folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"a": 1,', r"config.json is not valid JSON \(.*line 1 column 9.*\); copy or download"),
        ("", r"config.json is not valid JSON \(.*\); copy or download"),
        ("[1]", r"config.json holds no JSON object"),
        ("{}", r"config.json names no model_type; upgrade"),
        ('{"model_type": "zork"}', r"model type 'zork' is not known to transformers \d.*; upgrade"),
    ],
)
def test_damaged_config(content: str, said: str, folder: Path):
    (folder / "config.json").write_text(content)
    assert re.search(said, _message(folder))


def test_binary_config(folder: Path):
    (folder / "config.json").write_bytes(b"\xff\xfe\x00")
    assert "config.json is not valid JSON" in _message(folder)


def test_impossible_value_in_the_config(folder: Path):
    tiny_sources.edit_config(folder, num_attention_heads="four")
    text = _message(folder)
    assert "cannot load the model (bert)" in text
    assert "num_attention_heads" in text
    assert "four" in text


def test_weights_of_another_shape(folder: Path):
    tiny_sources.edit_config(folder, hidden_size=128)
    assert "shapes of the weights are not those that config.json (bert) describes" in (
        _message(folder)
    )


def test_attention_weights_that_would_be_random(folder: Path):
    tiny_sources.edit_config(folder, num_hidden_layers=4)
    text = _message(folder)
    assert "lacks 10 attention weights (the first is encoder.layer.3.attention." in text
    assert "would be random" in text


@pytest.mark.parametrize("family", ["gpt2", "t5", "bloom", "mpt", "distilbert", "modernbert"])
def test_attention_weights_are_known_in_every_family(family: str, tmp_path: Path):
    import safetensors.torch

    tiny_models.make_tiny(family).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    weights = safetensors.torch.load_file(file)
    kept = {name: value for name, value in weights.items() if "0" not in name.split(".")}
    safetensors.torch.save_file(kept, file, {"format": "pt"})
    assert "attention weights" in _message(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_weights_that_are_not_finite(value: float, dtype: torch.dtype):
    module = tiny_models.make_tiny("llama", dtype=dtype)
    module.layers[1].self_attn.v_proj.weight.data[3, 2] = value
    module.layers[2].self_attn.v_proj.weight.data[3, 2] = value
    text = _message(module)
    assert text.startswith("LlamaModel: the weight layers.1.self_attn.v_proj.weight has 1 of 2048")
    assert "infinite or not a number" in text


def test_opposite_infinities_are_found():
    module = tiny_models.make_tiny("llama")
    module.norm.weight.data[:2] = torch.tensor([float("inf"), float("-inf")])
    assert "norm.weight has 2 of 64 entries" in _message(module)


def test_large_finite_weights_are_accepted():
    module = tiny_models.make_tiny("llama", dtype=torch.float32)
    module.norm.weight.data.fill_(3e38)
    assert models.load(module).module is module


def test_weights_that_are_not_finite_in_a_folder(tmp_path: Path):
    module = tiny_models.make_tiny("bert")
    module.encoder.layer[0].attention.self.query.bias.data[0] = float("nan")
    module.save_pretrained(tmp_path)
    assert f"{tmp_path}: the weight encoder.layer.0.attention.self.query.bias" in _message(tmp_path)


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        (
            "flaot32",
            "dtype 'flaot32' is not one that models can be loaded in; did you mean float",
        ),
        ("int8", "use one of float32, float64, bfloat16, float16, auto"),
        (torch.int64, "dtype 'int64' is not one"),
        ("", "use one of"),
    ],
)
def test_unknown_dtype(dtype: str | torch.dtype, said: str, folder: Path):
    assert said in _message(folder, dtype=dtype)


def test_unknown_device(folder: Path):
    assert "device 'gpu' is not a device; use cpu, cuda, cuda:N or mps" in (
        _message(folder, device="gpu")
    )


@pytest.mark.parametrize("device", ["cuda", "cuda:3"])
def test_absent_cuda(device: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert f"device '{device}' is not available: torch sees 0 CUDA devices; use device='cpu'" in (
        _message(folder, device=device)
    )


def test_absent_mps(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert "device 'mps' is not available" in _message(folder, device="mps")


def test_named_tokenizer_that_is_none(folder: Path):
    assert f"tokenizer {folder}: the folder {folder} has no tokenizer files; name a folder" in (
        _message(folder, tokenizer=str(folder))
    )


@pytest.mark.parametrize("source", ["pkg:no_such_package", "pkg:no-such-package/model"])
def test_package_that_is_not_installed(source: str):
    text = _message(source)
    assert "is not installed; install it (pip install --no-deps no-such-package)" in text


@pytest.mark.parametrize("source", ["pkg:", "pkg:/model", "pkg:a b"])
def test_package_without_a_name(source: str):
    assert f"{source}: the package" in _message(source)


def test_dotted_packages_are_not_imported():
    assert "the package 'conwalk.cli' is not installed" in _message("pkg:conwalk.cli")


def test_single_module():
    assert "pkg:this: this is a single module, so no model lies in it; name a package" in (
        _message("pkg:this")
    )


def test_path_that_is_not_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "own_package_two").mkdir()
    tiny_sources.save_folder(tmp_path / "own_package_two" / "model")
    monkeypatch.syspath_prepend(tmp_path)
    text = _message("pkg:own_package_two/modell")
    assert "is installed but holds no 'modell' (models in it: model); check the path" in text
    assert "did you mean pkg:own_package_two/model?" in _message("pkg:own_package_two")
