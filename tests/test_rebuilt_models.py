"""BigBird puts full attention into itself for short texts: it is read as it is for the text."""

import pytest
import torch
from transformers import BigBirdConfig, BigBirdModel

from as_found import left_as_found
from conwalk.errors import CaptureError
from conwalk.pipeline import analyze, verify

SHORT = [list(range(3, 15))]
LONG = [[3 + i % 50 for i in range(80)]]


@pytest.fixture
def model() -> BigBirdModel:
    torch.manual_seed(0)
    config = BigBirdConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        vocab_size=60, max_position_embeddings=256, attention_type="block_sparse", block_size=4,
        num_random_blocks=1, sep_token_id=2,
    )  # fmt: skip
    return BigBirdModel(config).eval()


def test_a_short_text_is_walked_whole_and_the_model_keeps_its_blocks(model: BigBirdModel) -> None:
    with left_as_found(model):
        proof = verify(model, SHORT)
    assert proof.exact
    assert len(proof.layers) == 2
    assert model.attention_type == "block_sparse"


def test_a_long_text_is_refused_for_its_blocks_once_a_layer(model: BigBirdModel) -> None:
    with left_as_found(model):
        proof = verify(model, LONG)
    assert proof.layers == []
    assert [r.path for r in proof.refused] == [f"encoder.layer.{i}.attention.self" for i in (0, 1)]
    assert all("computed in blocks" in r.reason for r in proof.refused)
    with left_as_found(model), pytest.raises(CaptureError, match="computed in blocks"):
        analyze(model, LONG)
