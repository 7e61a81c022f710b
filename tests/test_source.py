"""Loading from folders, packages and memory: what comes back is the model that was saved."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tiny_models
import tiny_sources
from conwalk import models
from conwalk.errors import SourceError


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_sources.save_folder(tmp_path_factory.mktemp("models") / "bert")


@torch.no_grad()
def _output(module: torch.nn.Module) -> torch.Tensor:
    return module(**tiny_models.tiny_inputs(module, batch=2))[0]


@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_every_family_comes_back_as_saved(family: str, tmp_path: Path):
    saved = tiny_models.make_tiny(family)
    saved.save_pretrained(tmp_path)
    model = models.load(tmp_path)
    assert type(model.module) is type(saved)
    assert model.module.config._attn_implementation == "eager"
    assert not model.module.training
    assert model.notes == (f"no tokenizer: the folder {tmp_path} has no tokenizer files",)
    assert torch.equal(_output(model.module), _output(saved))


@pytest.mark.parametrize("auto", ["AutoModelForCausalLM", "AutoModel"])
def test_the_class_is_the_one_the_config_names(auto: str, tmp_path: Path):
    saved = tiny_models.make_tiny("gpt2", auto=auto)
    saved.save_pretrained(tmp_path)
    assert type(models.load(tmp_path).module) is type(saved)


def test_a_class_that_transformers_lacks_falls_back_to_the_bare_model(tmp_path: Path):
    tiny_sources.save_folder(tmp_path)
    tiny_sources.edit_config(tmp_path, architectures=["BertForSomethingElse"])
    assert type(models.load(tmp_path).module).__name__ == "BertModel"


def test_falcon_is_built_with_eager_attention(tmp_path: Path):
    tiny_models.make_tiny("falcon", attn="sdpa").save_pretrained(tmp_path)
    module = models.load(tmp_path).module
    assert {type(block.self_attention).__name__ for block in module.h} == {"FalconAttention"}
    assert {block.self_attention.config._attn_implementation for block in module.h} == {"eager"}


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ("float32", torch.float32),
        ("float64", torch.float64),
        ("bfloat16", torch.bfloat16),
        (torch.float16, torch.float16),
        ("torch.float64", torch.float64),
        ("auto", torch.float32),
    ],
)
def test_dtype(asked: str | torch.dtype, got: torch.dtype, bert_folder: Path):
    model = models.load(bert_folder, dtype=asked)
    assert {p.dtype for p in model.module.parameters()} == {got}
    assert model.dtype == got


def test_auto_keeps_the_dtype_of_the_checkpoint(tmp_path: Path):
    tiny_models.make_tiny("llama", dtype=torch.bfloat16).save_pretrained(tmp_path)
    assert models.load(tmp_path, dtype="auto").dtype == torch.bfloat16
    assert models.load(tmp_path).dtype == torch.float32


def test_tokenizer_of_the_folder(bert_folder: Path):
    model = models.load(bert_folder)
    assert model.notes == ()
    assert model.require_tokenizer()("w0 w5")["input_ids"] == [4, 9]


def test_tokenizer_from_another_folder(bert_folder: Path, tmp_path: Path):
    tiny_sources.save_folder(tmp_path / "model", words=False)
    tiny_sources.make_tokenizer().save_pretrained(tmp_path / "words")
    model = models.load(tmp_path / "model", tokenizer=str(tmp_path / "words"))
    assert model.tokenizer("w0")["input_ids"] == [4]
    assert model.notes == ()


def test_a_given_tokenizer_wins(bert_folder: Path):
    mine = tiny_sources.make_tokenizer()
    assert models.load(bert_folder, tokenizer=mine).tokenizer is mine


def test_a_tokenizer_without_vocabulary_is_none_at_all(tmp_path: Path):
    tiny_sources.save_folder(tmp_path, words=False)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    model = models.load(tmp_path)
    assert model.tokenizer is None
    assert model.notes[0].startswith("no tokenizer: ")


def test_a_damaged_tokenizer_is_noted(tmp_path: Path):
    tiny_sources.save_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    model = models.load(tmp_path)
    assert model.tokenizer is None
    assert model.notes[0].startswith("no tokenizer: its tokenizer cannot be read (")


def test_without_tokenizer_texts_are_refused_with_a_hint(tmp_path: Path):
    model = models.load(tiny_sources.save_folder(tmp_path, words=False))
    with pytest.raises(SourceError, match=r"no tokenizer was found.*pass tokenizer="):
        model.require_tokenizer()


def test_weights_of_a_new_head_are_noted(tmp_path: Path):
    tiny_sources.save_folder(tmp_path)
    tiny_sources.edit_config(tmp_path, architectures=["BertForSequenceClassification"])
    (note,) = models.load(tmp_path).notes
    assert note == (
        "2 weights are not in the checkpoint and are random: classifier.bias, classifier.weight"
    )


def test_unused_attention_weights_are_noted(tmp_path: Path):
    tiny_sources.save_folder(tmp_path)
    tiny_sources.edit_config(tmp_path, num_hidden_layers=2)
    (note,) = models.load(tmp_path).notes
    assert note.startswith("10 attention weights of the checkpoint are not used: encoder.layer.2.")


def test_sharded_folders_load(tmp_path: Path):
    saved = tiny_models.make_tiny("bert")
    saved.save_pretrained(tmp_path, max_shard_size="100KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    assert torch.equal(_output(models.load(tmp_path).module), _output(saved))


def test_code_of_the_model_runs_only_when_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "code")
    )
    folder = tiny_sources.save_folder(tmp_path / "model")
    tiny_sources.edit_config(
        folder,
        model_type="own_bert",
        architectures=["OwnModel"],
        auto_map={"AutoConfig": "own.OwnConfig", "AutoModelForMaskedLM": "own.OwnModel"},
    )
    (folder / "own.py").write_text(
        "from transformers import BertConfig, BertModel\n"
        "class OwnConfig(BertConfig):\n    model_type = 'own_bert'\n"
        "class OwnModel(BertModel):\n    config_class = OwnConfig\n"
    )
    with pytest.raises(SourceError, match=r"code of its own .* pass trust_remote_code=True"):
        models.load(folder)
    module = models.load(folder, trust_remote_code=True).module
    assert type(module).__name__ == "OwnModel"


def test_a_quantized_checkpoint_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tiny_sources.save_folder(tmp_path)
    tiny_sources.edit_config(folder, quantization_config={"quant_method": "own"})
    monkeypatch.setattr(
        "conwalk.models.folder._load_module",
        lambda *_: (tiny_models.make_tiny("bert"), ()),
    )
    model = models.load(folder)
    assert model.quantized
    assert "quantized (own)" in model.notes[-1]


def test_live_modules_stay_as_they_are():
    module = tiny_models.make_tiny("falcon", dtype=torch.float64, attn="sdpa").train()
    words = tiny_sources.make_tokenizer()
    model = models.load(module, tokenizer=words)
    assert model.module is module
    assert model.tokenizer is words
    assert (model.kind, model.source, model.notes) == ("live", "FalconModel", ())
    assert module.training
    assert model.dtype == torch.float64
    assert module.config._attn_implementation == "sdpa"


def test_a_live_module_without_tokenizer_says_so():
    model = models.load(tiny_models.make_tiny("gpt2"))
    assert model.notes == ("no tokenizer was given: pass token ids, not texts",)


def test_a_revision_of_a_folder_is_noted(bert_folder: Path):
    assert models.load(bert_folder, revision="main").notes == (
        "revision is ignored: it belongs to Hub ids",
    )


@pytest.fixture
def fake_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose import fails, with a model inside."""
    root = tmp_path / "own_model_package"
    tiny_sources.save_folder(root / "model")
    (root / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return root


@pytest.mark.parametrize("name", ["own_model_package", "own-model-package"])
def test_packages_are_read_but_not_imported(name: str, fake_package: Path):
    model = models.load(f"pkg:{name}/model")
    assert (model.kind, model.source) == ("package", f"pkg:{name}/model")
    assert "own_model_package" not in sys.modules
    assert model.notes == ()


def test_a_package_may_hold_a_gguf_file_alone(fake_package: Path, tmp_path: Path):
    tiny_sources.save_gguf(fake_package / "tiny.gguf", tiny_sources.tiny_llama())
    for source in ("pkg:own_model_package", "pkg:own_model_package/tiny.gguf"):
        model = models.load(source, cache_dir=tmp_path / "cache")
        assert (model.kind, model.quantized) == ("package", True)


def test_the_hash_of_a_folder_is_that_of_its_weights(bert_folder: Path, tmp_path: Path):
    copy = shutil.copytree(bert_folder, tmp_path / "copy")
    tiny_sources.edit_config(copy, note="nothing that matters")
    other = tiny_sources.save_folder(tmp_path / "other", tiny_models.make_tiny("bert", seed=1))
    first, same, different = (models.load(f).weights_hash for f in (bert_folder, copy, other))
    assert first.startswith("sha256:")
    assert first == same
    assert first != different


def test_the_hash_of_a_live_module_is_that_of_its_parameters():
    def hash_of(**changes: float) -> str:
        module = tiny_models.make_tiny("llama")
        for name, change in changes.items():
            module.layers[1].self_attn.get_submodule(name).weight.data[0, 0] += change
        return models.load(module).weights_hash

    assert hash_of() == hash_of()
    assert hash_of(v_proj=1.0) != hash_of()
    assert models.load(tiny_models.make_tiny("llama").double()).weights_hash != hash_of()
    assert models.load(tiny_models.make_tiny("llama").bfloat16()).weights_hash != hash_of()


def test_the_hash_tells_dtypes_of_the_same_bits_apart():
    module = torch.nn.Linear(2, 2).half()
    half = models.load(module).weights_hash
    for parameter in module.parameters():
        parameter.data = parameter.data.view(torch.bfloat16)
    assert models.load(module).weights_hash != half


def test_the_hash_is_computed_once(bert_folder: Path, monkeypatch: pytest.MonkeyPatch):
    model = models.load(bert_folder)
    first = model.weights_hash
    monkeypatch.setattr("conwalk.models.fingerprint.of_file", lambda _: "changed")
    assert model.weights_hash == first


def test_loading_is_silent_and_leaves_the_settings_of_transformers(
    bert_folder: Path, capfd: pytest.CaptureFixture[str]
):
    from huggingface_hub.utils import are_progress_bars_disabled
    from transformers.utils import logging

    def settings() -> tuple[int, bool, bool]:
        return (
            logging.get_verbosity(),
            logging.is_progress_bar_enabled(),
            are_progress_bars_disabled(),
        )

    found = settings()
    try:
        for bars in (logging.enable_progress_bar, logging.disable_progress_bar):
            bars()
            logging.set_verbosity_info()
            before = settings()
            capfd.readouterr()
            models.load(bert_folder)
            assert capfd.readouterr() == ("", "")
            with pytest.raises(SourceError):
                models.load(bert_folder / "nowhere")
            assert settings() == before
    finally:
        logging.set_verbosity(found[0])
        logging.enable_progress_bar()


def test_the_module_imports_transformers_on_demand():
    code = "import sys, conwalk.models.source; print('transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_configs_are_read_as_utf_8(tmp_path: Path):
    folder = tiny_sources.save_folder(tmp_path)
    config = json.loads((folder / "config.json").read_text()) | {"note": "Größe"}
    (folder / "config.json").write_text(json.dumps(config, ensure_ascii=False), encoding="utf-8")
    assert models.load(folder).module.config.note == "Größe"
