"""Padding never enters a walk: a padded batch gives what each prompt gives alone."""

import json
from typing import Any

import pytest
import torch
from torch import Tensor

import conwalk as cw
from compare_datasets import assert_same
from conwalk import tolerance
from conwalk.capture import CapturedLayer, watch
from conwalk.errors import CaptureError
from conwalk.pipeline import padding
from tiny_models import make_tiny, tiny_inputs
from tiny_sources import make_tokenizer

FAMILIES = ["bert", "llama", "mistral", "gpt2", "bloom", "deberta-v2", "modernbert", "t5", "opt"]
LENGTH, PAD = 11, 4


def layers_of(model: torch.nn.Module, inputs: dict[str, Tensor]) -> list[CapturedLayer]:
    caught: list[CapturedLayer] = []
    watch(model).stream(inputs, caught.append)
    return caught


@pytest.mark.parametrize("family", FAMILIES)
def test_a_padded_prompt_is_the_prompt_alone(family: str) -> None:
    model = make_tiny(family)
    padded = tiny_inputs(model, LENGTH, 2, PAD)
    short = LENGTH - PAD
    alone = {
        "input_ids": padded["input_ids"][1:, :short],
        "attention_mask": padded["attention_mask"][1:, :short],
    }
    in_batch = [layer for layer in layers_of(model, padded) if layer.prompt == 1]
    by_itself = layers_of(model, alone)
    limit = tolerance.rounding(torch.float32, LENGTH)
    for a, b in zip(in_batch, by_itself, strict=True):
        assert a.attention.shape == (4, short, short)
        assert torch.allclose(a.attention, b.attention, rtol=0, atol=limit)
        assert torch.allclose(a.value_input, b.value_input, rtol=limit, atol=limit)
        assert float((a.attention.sum(-1) - 1).abs().max()) <= limit


def test_left_padding_is_left_out_as_well() -> None:
    model = make_tiny("bert")
    inputs = tiny_inputs(model, LENGTH, 2, PAD, side="left")
    caught = [layer for layer in layers_of(model, inputs) if layer.prompt == 1]
    assert {tuple(c.attention.shape) for c in caught} == {(4, LENGTH - PAD, LENGTH - PAD)}
    for layer in caught:
        assert float((layer.attention.sum(-1) - 1).abs().max()) <= tolerance.row_sum(torch.float32)


def test_a_mask_of_other_positions_is_refused_not_guessed() -> None:
    from conwalk.capture.prompts import Positions

    model = make_tiny("bert")
    site = watch(model).sites[0]
    mask = torch.ones(2, 5, dtype=torch.long)
    mask[1, 3:] = 0
    with pytest.raises(CaptureError, match="7 positions do not match the padding mask"):
        Positions({"attention_mask": mask}).of(site, 1, (7, 7))


LENGTHS = (24, 3, 9)
WIDTH = 64
WINDOWED = ("mistral", "gemma3_text", "modernbert")
EVERY_KIND = ("gpt2", "roberta", "bert", "llama", "bloom", "opt", "bart", "mpt", *WINDOWED)


def prompts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(4, 100, (n,), generator=generator).tolist() for n in LENGTHS]


@pytest.mark.parametrize("family", EVERY_KIND)
def test_every_number_of_a_padded_prompt_is_that_of_the_prompt_alone(family: str) -> None:
    model = make_tiny(family)
    together = cw.analyze(model, prompts(), batch_size=3)
    assert_same(together, cw.analyze(model, prompts()), torch.float32, WIDTH)
    assert json.loads(together.attrs["input_notes"]) == []


@pytest.mark.parametrize("family", EVERY_KIND)
def test_padding_before_the_tokens_leaves_positions_as_they_are(family: str) -> None:
    model = make_tiny(family)
    found = cw.analyze(model, left_padded(prompts()))
    assert_same(found, cw.analyze(model, prompts()), torch.float32, WIDTH)
    assert "moved behind them" in found.attrs["input_notes"]


def left_padded(given: list[list[int]], fill: int = 2) -> dict[str, Tensor]:
    longest = max(len(p) for p in given)
    before = [longest - len(p) for p in given]
    ids = [[fill] * n + p for n, p in zip(before, given, strict=True)]
    mask = [[0] * n + [1] * len(p) for n, p in zip(before, given, strict=True)]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def test_positions_that_were_given_are_kept() -> None:
    model = make_tiny("gpt2")
    inputs = left_padded(prompts())
    inputs["position_ids"] = (inputs["attention_mask"].cumsum(1) - 1).clamp(min=0)
    found = cw.analyze(model, inputs)
    assert_same(found, cw.analyze(model, prompts()), torch.float32, WIDTH)
    assert json.loads(found.attrs["input_notes"]) == []
    inputs["position_ids"] = torch.arange(max(LENGTHS)).expand(3, -1)
    shifted = cw.analyze(model, inputs)
    assert float(abs(shifted.entropy - found.entropy).max()) > 1e-3


@pytest.mark.parametrize("family", WINDOWED)
def test_a_window_shorter_than_the_padding_in_double_precision(family: str) -> None:
    model = make_tiny(family, dtype=torch.float64)
    together = cw.analyze(model, prompts(), batch_size=3)
    assert_same(together, cw.analyze(model, prompts()), torch.float64, WIDTH)
    (note,) = json.loads(together.attrs["input_notes"])
    assert note.startswith("prompts 0, 1, 2 were run one at a time: padded together")
    proof = cw.verify(model, prompts(), batch_size=3)
    assert proof.exact
    assert proof.notes == (note,)


def test_double_precision_is_padded_where_the_model_can_take_it() -> None:
    model = make_tiny("bert", dtype=torch.float64)
    together = cw.analyze(model, prompts(), batch_size=3)
    assert_same(together, cw.analyze(model, prompts()), torch.float64, WIDTH)
    assert json.loads(together.attrs["input_notes"]) == []


@pytest.mark.parametrize("family", ["bert", "gpt2", "mistral"])
@pytest.mark.parametrize("pad", ["</s>", None])
def test_the_token_that_pads_may_stand_in_the_text_or_not_be_there(
    family: str, pad: str | None
) -> None:
    tokenizer = make_tokenizer()
    tokenizer.pad_token = pad
    model = cw.load(make_tiny(family), tokenizer=tokenizer)
    texts = ["w1 w2 </s> w3 w4 w5 w6 w7 w8 w9", "w5 </s> w6", "</s> w1 </s>"]
    together = cw.analyze(model, texts, batch_size=3)
    assert list(together.n_tokens.values) == [10, 3, 3]
    assert list(together.token_text.values[2][:3]) == ["</s>", "w1", "</s>"]
    # without a tokenizer, nothing is known to be padding
    alone = cw.analyze(model.module, [tokenizer(text)["input_ids"] for text in texts])
    assert_same(together, alone, torch.float32, WIDTH)


def test_prompts_of_a_padded_batch_one_by_one() -> None:
    inputs = padding.to_the_right(left_padded([[5, 6, 7], [8]]))
    assert inputs["input_ids"].tolist() == [[5, 6, 7], [8, 2, 2]]
    assert inputs["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    inputs["decoder_input_ids"] = torch.tensor([[1, 5], [1, 0]])
    inputs["decoder_attention_mask"] = torch.tensor([[1, 1], [1, 0]])
    alone = padding.alone(inputs, 1, 2)
    assert {name: t.tolist() for name, t in alone.items()} == {
        "input_ids": [[8]],
        "attention_mask": [[1]],
        "decoder_input_ids": [[1]],
        "decoder_attention_mask": [[1]],
    }


def test_a_place_masked_inside_a_text_stays_where_it_is() -> None:
    inputs = {
        "input_ids": torch.tensor([[0, 5, 6, 7]]),
        "attention_mask": torch.tensor([[0, 1, 0, 1]]),
    }
    moved = padding.to_the_right(inputs)
    assert moved["input_ids"].tolist() == [[5, 6, 7, 0]]
    assert moved["attention_mask"].tolist() == [[1, 0, 1, 0]]


TEXTS = ["The old keeper climbed the stairs.", "Rain fell on the harbour 日本語 all night.", "So"]


def check_trained(model: Any, layers: list[int]) -> None:
    """Padded together by conwalk, and by the tokenizer on either side, is each text alone."""
    expected = cw.analyze(model, TEXTS, layers=layers)
    width = model.module.config.hidden_size
    together = cw.analyze(model, TEXTS, layers=layers, batch_size=3)
    assert_same(together, expected, torch.float32, width)
    for side in ("left", "right"):
        ready = model.tokenizer(TEXTS, padding=True, padding_side=side, return_tensors="pt")
        found = cw.analyze(model, dict(ready), layers=layers)
        assert_same(found, expected, torch.float32, width)
        assert list(found.n_tokens.values) == list(expected.n_tokens.values)


def test_a_trained_encoder_padded_on_either_side(minilm: Any) -> None:
    check_trained(minilm, [0, 3, 5])


def test_a_trained_decoder_padded_on_either_side(smollm: Any) -> None:
    check_trained(smollm, [0, 15, 29])
