"""Padding never enters a walk: a padded batch gives what each prompt gives alone."""

import pytest
import torch
from torch import Tensor

from conwalk import tolerance
from conwalk.capture import CapturedLayer, watch
from conwalk.errors import CaptureError
from tiny_models import make_tiny, tiny_inputs

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
