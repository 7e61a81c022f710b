"""Special tokens left out: attention of the others alone, rows rescaled, nothing silent."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import conwalk as cw
from conwalk import tolerance
from conwalk.errors import TextError
from conwalk.metrics import ALL
from conwalk.pipeline import analysis
from conwalk.pipeline.collect import Collector
from conwalk.pipeline.exclusion import Exclusion
from conwalk.pipeline.naming import Naming
from conwalk.results import refused
from tiny_models import make_tiny
from tiny_tokenizers import of_pieces, of_sentences

TEXTS = ["un b cafe un un", "b [SEP] un b"]
OURS = ([1, 2, 3, 4, 5], [1, 3, 4])


@pytest.fixture(scope="module")
def bert() -> Any:
    return cw.load(make_tiny("bert"), tokenizer=of_pieces())


def rescaled(attention: torch.Tensor, kept: list[int]) -> torch.Tensor:
    """The rows and columns of the kept tokens, every row rescaled to sum 1."""
    part = attention[:, kept][:, :, kept].double()
    return part / part.sum(-1, keepdim=True)


def test_numbers_are_those_of_the_rescaled_rows(bert: Any) -> None:
    found = cw.analyze(bert, TEXTS, exclude_special=True)
    for prompt, (text, kept) in enumerate(zip(TEXTS, OURS, strict=True)):
        for layer in range(3):
            whole = cw.capture_layer(bert, text, layer).attention
            attention = rescaled(whole, kept)
            entropy = -(attention * attention.log()).sum(-1).mean(-1)
            here = found.isel(prompt=prompt, layer=layer)
            assert np.allclose(here.entropy, entropy, atol=tolerance.rounding(torch.float32, 64))
            first = attention[:, :, 0].mean(-1)
            assert np.allclose(here.first_token_attention, first, atol=1e-6)
            share = 1 - whole[:, kept][:, :, kept].double().sum(-1).mean(-1)
            assert np.allclose(here.special_share, share, atol=1e-6)


def test_the_result_says_so(bert: Any) -> None:
    found, plain = cw.analyze(bert, TEXTS, exclude_special=True), cw.analyze(bert, TEXTS)
    assert found.attrs["special_tokens"] == "excluded, rows renormalised"
    assert plain.attrs["special_tokens"] == "included"
    assert list(found.token_text.values[1]) == ["b", "un", "b", "", ""]
    assert list(found.n_tokens.values) == [5, 3]
    assert "special_share" not in plain
    # layers are proven with all tokens, and weights are what they are
    assert np.array_equal(found.residual, plain.residual)
    assert np.array_equal(found.rho, plain.rho)
    assert float(abs(found.entropy - plain.entropy).max()) > 0.1


def test_scores_are_those_of_the_kept_tokens(bert: Any) -> None:
    text, kept = TEXTS[0], OURS[0]
    (found,) = cw.analyze(bert, [text], exclude_special=True).curl_share.values[:, 1].tolist()
    scores = []
    site = analysis.watch(bert.module).sites[1]
    inputs = bert.tokenizer(text, return_tensors="pt")
    analysis.watch(bert.module).stream(
        dict(inputs), lambda layer: scores.append(layer.scores), [site], scores=True
    )
    n = len(kept)
    for head, whole in enumerate(scores[0].double()):
        part = whole[kept][:, kept]
        skew = (part - part.T) / 2
        g = skew.mean(1)
        curl = skew - (g[:, None] - g[None])
        expected = float(curl.square().sum() / skew.square().sum())
        assert found[head] == pytest.approx(expected, abs=tolerance.rounding(torch.float32, 64 * n))


def test_every_metric_has_a_number_or_none_with_and_without(bert: Any) -> None:
    asked: Any = {"panel": ALL, "details": True, "layers": [0, 1]}
    found = cw.analyze(bert, TEXTS[:1], exclude_special=True, **asked)
    plain = cw.analyze(bert, TEXTS[:1], **asked)
    assert set(found.data_vars) == {*plain.data_vars, "special_share"}
    for name in plain.data_vars:
        assert np.isfinite(found[name]).any() == np.isfinite(plain[name]).any(), name
    assert found.walk_matrix.shape[-1] == 5


def test_blocks_of_rows_give_the_same(bert: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cw.analyze(bert, TEXTS, exclude_special=True)
    monkeypatch.setattr(analysis, "BLOCK_ABOVE", 2)
    monkeypatch.setattr(analysis, "BLOCK_ROWS", 1)
    rows = cw.analyze(bert, TEXTS, exclude_special=True, details=True)
    limit = tolerance.rounding(torch.float32, 64)
    for name in ("entropy", "first_token_attention", "edge_rank", "special_share"):
        assert np.allclose(rows[name], whole[name], rtol=limit, equal_nan=True), name
    assert rows.walk_matrix.shape[-1] == 5
    assert float(np.nanmax(abs(rows.walk_matrix.sum("key").values[0, :, :5] - 1))) < 1e-5


def test_a_causal_walk_stays_one() -> None:
    model = cw.load(make_tiny("llama", vocab_size=300), tokenizer=of_sentences())
    found = cw.analyze(model, ["a ab ba"], exclude_special=True, details=True)
    walk = found.walk_matrix.values[0, 0]
    assert np.array_equal(walk, np.tril(walk))
    assert walk[0, 0] == pytest.approx(1)
    assert "<s>" not in found.token_text.values


def test_in_a_decoder_the_start_token_is_left_out_and_what_follows_is_shifted() -> None:
    model = cw.load(make_tiny("bart", decoder_start_token_id=1), tokenizer=of_pieces())
    found = cw.analyze(model, ["un b"], exclude_special=True)
    assert [t for t in found.token_text.values[0] if t] == ["un", "b"]
    # the decoder reads its start token, then the text with its [CLS]
    assert [t for t in found.token_text_target.values[0] if t] == ["un", "b"]
    by_stack = dict(zip(found["layer"].values, found["query_tokens"].values, strict=True))
    assert by_stack["decoder.0"] == "token_text_target"
    assert by_stack["cross.0"] == "token_text_target"
    assert by_stack["encoder.0"] == "token_text"


def test_nothing_left_is_said(bert: Any) -> None:
    found = cw.analyze(bert, ["un b", [1, 2, 1]], exclude_special=True)
    assert [r["reason"] for r in refused(found)] == ["every token is a special one"] * 3
    assert refused(found)[0]["name"].startswith("prompt 1, ")
    assert np.isnan(found.entropy.values[1]).all()
    assert np.isfinite(found.entropy.values[0]).all()
    assert np.isfinite(found.residual.values).all()


def test_rows_that_give_all_to_special_tokens_are_not_made_up(bert: Any) -> None:
    layer = cw.capture_layer(bert, "un b", 0)
    attention = torch.zeros_like(layer.attention)
    attention[..., 0] = 1

    class Kept(Naming):
        def __init__(self) -> None:
            """Of no prompts: it is only asked what is kept."""

        def kept(self, *_: Any) -> Any:
            return torch.tensor([1, 2]), torch.tensor([1, 2])

    left, nowhere = Exclusion(Kept(), None), Collector(1, 1, {})
    assert left.layer(replace(layer, attention=attention), (0, 0)) is None
    assert str(left.close((0, 0), nowhere)).startswith(
        "8 rows give all their weight to special tokens"
    )
    signed = replace(layer, attention=layer.attention - 0.5)
    assert left.layer(signed, (0, 0)) is None
    assert str(left.close((0, 0), nowhere)).startswith("its weights are signed")


def test_without_a_tokenizer_it_is_not_known_what_is_special() -> None:
    with pytest.raises(TextError, match="without a tokenizer it is not known which they are"):
        cw.analyze(make_tiny("bert"), [[1, 5, 2]], exclude_special=True)


def test_a_text_without_special_tokens_loses_nothing() -> None:
    model = cw.load(make_tiny("gpt2", vocab_size=300), tokenizer=of_sentences())
    ids = [260, 261, 262]
    found, plain = (cw.analyze(model, [ids], exclude_special=e) for e in (True, False))
    assert np.array_equal(found.entropy, plain.entropy)
    assert float(found.special_share.max()) == 0
    assert json.loads(found.attrs["input_notes"]) == []
