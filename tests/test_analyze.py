"""The main job, on a model small enough to check every number by hand."""

import json

import numpy as np
import pytest
import torch
import xarray as xr

from conwalk import __version__
from conwalk.capture import CapturedLayer, watch
from conwalk.errors import SelectionError, TextError
from conwalk.metrics import ALL
from conwalk.pipeline import analyze
from conwalk.results import refused
from tiny_models import make_tiny

IDS = [[5, 9, 13, 40, 21, 8], [7, 7, 7]]


@pytest.fixture(scope="module")
def found() -> xr.Dataset:
    return analyze(make_tiny("llama"), IDS, names=["first", "second"], command="a test")


def test_dimensions_and_coordinates(found: xr.Dataset) -> None:
    assert dict(found.sizes) == {"prompt": 2, "layer": 3, "head": 4, "token": 6}
    assert list(found.prompt.values) == ["first", "second"]
    assert list(found.layer.values) == [0, 1, 2]
    assert list(found.n_tokens.values) == [6, 3]
    assert list(found.token_text.values[1]) == ["7", "7", "7", "", "", ""]


def test_every_quantity_says_what_it_is(found: xr.Dataset) -> None:
    for metric in ALL:
        for quantity in metric.quantities:
            if not metric.default:
                continue
            attrs = found[quantity.name].attrs
            assert attrs["unit"]
            assert attrs["long_name"] == quantity.meaning
            assert len(json.loads(attrs["range"])) == 2


def test_provenance(found: xr.Dataset) -> None:
    attrs = found.attrs
    assert attrs["conwalk"] == __version__
    assert attrs["torch"] == torch.__version__
    assert attrs["command"] == "a test"
    assert attrs["dtype"] == "float32"
    assert attrs["seed"] == 0
    assert attrs["weights_hash"].startswith("sha256:")
    assert refused(found) == []


def test_numbers_are_those_of_the_captured_attention(found: xr.Dataset) -> None:
    model = make_tiny("llama")
    caught: list[CapturedLayer] = []
    watch(model).stream({"input_ids": torch.tensor(IDS[:1])}, caught.append)
    for place, layer in enumerate(caught):
        a = layer.attention.double().numpy()
        first = a[:, :, 0].mean(1)
        here = found.isel(prompt=0, layer=place)
        assert np.allclose(here.first_token_attention, first, atol=1e-6)
        assert float(here.sink_fraction) == pytest.approx(float((first > 0.3).mean()))
        safe = np.where(a > 0, a, 1.0)
        entropy = -(a * np.log(safe)).sum(-1)
        assert np.allclose(here.entropy, entropy.mean(1), atol=1e-5)
        most = np.log(np.arange(1, a.shape[1] + 1))
        assert np.allclose(here.entropy_share, entropy.sum(1) / most.sum(), atol=1e-5)
        assert float(here.row_sum_defect) == pytest.approx(abs(a.sum(-1) - 1).max(), abs=1e-7)


def test_rho_is_the_nuclear_over_the_frobenius_norm(found: xr.Dataset) -> None:
    model = make_tiny("llama")
    for place, site in enumerate(watch(model).sites):
        for h in range(4):
            m = site.transports.matrix(h).double()
            sigma = torch.linalg.svdvals(m)
            rho = float(sigma.sum() / (16**0.5 * sigma.square().sum().sqrt()))
            assert float(found.rho[place, h]) == pytest.approx(rho, abs=1e-5)


def test_one_token_gives_defined_numbers() -> None:
    one = analyze(make_tiny("llama"), [[5]])
    several = analyze(make_tiny("llama"), IDS[:1])
    for name, variable in one.data_vars.items():
        assert not np.isinf(variable).any(), name
        # what has no number for one token has none for six, or is the z of a null that is still
        missing = variable.isnull() & ~several[name].isnull()
        assert not missing.any() or name.endswith(("_z", "_z_no_sink", "_z_value")), name
    assert float(one.entropy.max()) == 0
    assert float(one.entropy_share.min()) == 1
    assert float(one.first_token_attention.min()) == 1


def test_an_empty_prompt_is_reported_by_index_and_the_others_are_analysed() -> None:
    found = analyze(make_tiny("llama"), [[5, 6], [], [7, 8, 9]])
    assert list(found.prompt.values) == ["0", "2"]
    assert refused(found) == [{"name": "text 1", "reason": "it has no tokens"}]
    assert not found.entropy.isnull().any()


def test_chosen_layers_and_heads() -> None:
    model = make_tiny("llama")
    whole = analyze(model, IDS[:1])
    part = analyze(model, IDS[:1], layers=[2, 0], heads=[3, 1])
    assert list(part.layer.values) == [0, 2]
    assert list(part["head"].values) == [1, 3]
    for name in ("rho", "entropy", "first_token_attention"):
        chosen = whole[name].sel(layer=[0, 2], head=[1, 3])
        assert np.allclose(part[name], chosen, atol=1e-6), name


def test_a_padded_batch_gives_what_single_prompts_give() -> None:
    model = make_tiny("llama")
    alone = analyze(model, IDS)
    batched = analyze(model, IDS, batch_size=2)
    for name in alone.data_vars:
        close = np.allclose(alone[name], batched[name], rtol=1e-4, atol=1e-5, equal_nan=True)
        assert close or name.endswith(("_z", "_z_no_sink", "_z_value")), name


def test_the_same_seed_gives_the_same_dataset_and_another_does_not() -> None:
    model = make_tiny("llama")
    a, b, c = (analyze(model, IDS, seed=s) for s in (0, 0, 1))
    assert all(np.array_equal(a[n], b[n], equal_nan=True) for n in a.data_vars)
    assert not np.array_equal(a.rho_null_mean, c.rho_null_mean)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"layers": [99]}, "layer 99 does not exist: this model has attention in layers 0-2"),
        ({"heads": [4]}, "head 4 does not exist: the layers of this model have heads 0-3"),
    ],
)
def test_a_layer_or_head_that_does_not_exist(wanted: dict[str, list[int]], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        analyze(make_tiny("llama"), IDS, **wanted)


@pytest.mark.parametrize(
    ("ids", "length", "message"),
    [
        ([[]], None, "text 0: it has no tokens"),
        ([], None, "no text was given"),
        ([[100]], None, "outside the vocabulary, 0-99"),
        ([[1] * 129], None, "it has 129 tokens and the model reads at most 128; cut it with"),
        ([[1]], 129, "max length 129 is more than the 128 tokens"),
        ([[1]], 0, "max length 0 leaves no token"),
    ],
)
def test_token_ids_that_cannot_be_read(
    ids: list[list[int]], length: int | None, message: str
) -> None:
    with pytest.raises(TextError, match=message):
        analyze(make_tiny("llama"), ids, max_length=length)


def test_a_text_that_is_too_long_is_cut_when_asked() -> None:
    found = analyze(make_tiny("llama"), [[1] * 200], max_length=50)
    assert list(found.n_tokens.values) == [50]
