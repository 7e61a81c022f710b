"""Scores before the mask, and attention handed over in blocks of query rows."""

import pytest
import torch
from torch import Tensor

from conwalk import tolerance
from conwalk.capture import CapturedLayer, CapturedOutput, CapturedRows, RowBlocks, watch
from conwalk.capture.layer import proven_scores
from conwalk.pipeline import analyze
from conwalk.theorems import reconstruction_residual
from test_hand_written import Attention, BatchedMatmul, Einsum, Fused, Matmul, Model
from tiny_models import FAMILIES, make_tiny, tiny_inputs

# the only tiny family whose mask and position bias are one tensor, which cannot be taken apart
INSEPARABLE = {"falcon-alibi"}
# the difference of two softmaxes is the softmax of nothing
SIGNED = {"diffllama"}
# families whose attention does not go through the interface are never split
WHOLE = {"gpt_neo", "bloom", "falcon", "falcon-new", "falcon-alibi", "mpt", "mpnet", "deberta-v2"}
SIZE = 5


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_had_in_every_family_that_can_tell_them_from_its_mask(family: str) -> None:
    model = make_tiny(family)
    caught: list[CapturedLayer] = []
    watch(model).stream(tiny_inputs(model, 10, 2, 3), caught.append, scores=True)
    for layer in caught:
        if family in INSEPARABLE | SIGNED:
            assert layer.scores is None
            continue
        assert layer.scores is not None
        assert layer.scores.shape == layer.attention.shape
        assert bool(layer.scores.isfinite().all())
        absent = (layer.attention == 0).all(0)
        again = layer.scores.masked_fill(absent, float("-inf")).softmax(-1)
        held = layer.attention.sum(-1, keepdim=True)
        assert float((again * held - layer.attention).abs().max()) < 1e-5


@pytest.mark.parametrize("attention", [Matmul, Einsum, BatchedMatmul, Fused])
def test_scores_are_query_times_key_also_where_the_mask_hides_them(
    attention: type[Attention],
) -> None:
    torch.manual_seed(3)
    model = Model(attention)
    inputs = {"input_ids": torch.arange(8)[None]}
    caught: list[CapturedLayer] = []
    watch(model, inputs).stream(inputs, caught.append, scores=True)
    for layer, block in zip(caught, model.blocks, strict=True):
        assert isinstance(block, Attention)
        with torch.no_grad():
            query = block.split(block.to_query(layer.value_input)[None])[0]
            key = block.split(block.to_key(layer.value_input)[None])[0]
        expected = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        assert layer.scores is not None
        assert torch.allclose(layer.scores, expected, atol=1e-5)
        assert bool((layer.scores.triu(1) != 0).any())


def test_watching_scores_changes_nothing() -> None:
    for family in ("llama", "bloom"):
        model = make_tiny(family)
        inputs = tiny_inputs(model, 9)
        plain = watch(model).stream(inputs, lambda layer: None)[0]
        scored = watch(model).stream(inputs, lambda layer: None, scores=True)[0]
        assert torch.equal(plain, scored)


def test_scores_that_do_not_give_the_attention_are_not_passed_on() -> None:
    scores = torch.randn(2, 4, 4)
    attention = scores.softmax(-1)
    assert proven_scores(scores, attention) is scores
    assert proven_scores(scores + 0.01 * torch.randn(2, 4, 4), attention) is None
    assert proven_scores(scores[:, :, :3], attention) is None
    assert proven_scores(None, attention) is None


def whole(
    model: torch.nn.Module, inputs: dict[str, Tensor]
) -> dict[tuple[int, int], CapturedLayer]:
    found: dict[tuple[int, int], CapturedLayer] = {}
    watch(model).stream(
        inputs, lambda layer: found.__setitem__((layer.site.index, layer.prompt), layer)
    )
    return found


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("family", ["llama", "mistral", "bert", "gpt2", "t5", "gemma2", "bart"])
def test_blocks_of_rows_are_the_rows_of_the_whole(family: str, side: str) -> None:
    model = make_tiny(family)
    inputs = tiny_inputs(model, 13, 2, 6, side=side)
    expected = whole(model, inputs)
    blocks: dict[tuple[int, int], list[CapturedRows]] = {}
    outputs: dict[tuple[int, int], CapturedOutput] = {}
    watch(model).stream(
        inputs,
        lambda layer: pytest.fail("a layer came whole"),
        blocks=RowBlocks(
            SIZE,
            1,
            lambda rows: blocks.setdefault((rows.site.index, rows.prompt), []).append(rows),
            lambda out: outputs.__setitem__((out.site.index, out.prompt), out),
        ),
    )
    assert set(blocks) == set(outputs) == set(expected)
    for place, parts in blocks.items():
        layer = expected[place]
        counts = [p.attention.shape[1] for p in parts]
        assert max(counts) <= SIZE
        assert [p.first for p in parts] == [sum(counts[:i]) for i in range(len(counts))]
        assert {p.n_rows for p in parts} == {layer.attention.shape[1]}
        joined = torch.cat([p.attention for p in parts], 1)
        assert torch.allclose(joined, layer.attention, atol=1e-5)
        rebuilt = torch.cat([p.walk(p.value_input) for p in parts])
        residual = reconstruction_residual(rebuilt, outputs[place].output)
        assert residual <= tolerance.reconstruction(torch.float32)


def test_short_passes_and_unsplittable_families_come_whole() -> None:
    def fail(_: object) -> None:
        pytest.fail("a layer came in rows")

    for family, above in [("llama", 9), *((f, 1) for f in sorted(WHOLE))]:
        model = make_tiny(family)
        caught: list[CapturedLayer] = []
        watch(model).stream(
            tiny_inputs(model, 9), caught.append, blocks=RowBlocks(4, above, fail, fail)
        )
        assert len(caught) == len(watch(model).sites)


def test_scaling_and_softcap_are_named() -> None:
    found = analyze(make_tiny("gemma2"), [[5, 9, 13]])
    assert found.scaling.values == pytest.approx(16**-0.5)
    assert found.softcap.values == pytest.approx(50.0)
    plain = analyze(make_tiny("llama"), [[5, 9, 13]])
    assert plain.scaling.values == pytest.approx(16**-0.5)
    assert plain.softcap.isnull().all()
