"""Every family's layers are rebuilt exactly, whatever its layout, and watching changes nothing."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from conwalk import tolerance
from conwalk.capture import CapturedLayer, watch
from conwalk.models import inference
from conwalk.theorems import one_walk, reconstruction_residual
from tiny_models import FAMILIES, make_tiny, tiny_inputs

LAYERS = {"albert": 6, "bart": 6, "gpt_neo": 2}
HEADS = {"qwen2": (14, 2), "falcon": (4, 1)}
GROUPED = {"llama", "mistral", "qwen3", "gemma", "gemma2", "gemma3_text", "olmo2", "falcon-new"}


def first(returned: object) -> Tensor:
    return returned[0]  # type: ignore[index]


def unwatched(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    with inference.eager(model):
        return first(inference.forward(model, inputs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_is_rebuilt_and_nothing_changes(family: str, dtype: torch.dtype) -> None:
    model = make_tiny(family, dtype=dtype)
    inputs = tiny_inputs(model, 12, 2, 3)
    watched = watch(model)
    residuals: list[float] = []
    splits: list[float] = []

    def rebuild(layer: CapturedLayer) -> None:
        residuals.append(reconstruction_residual(layer.walk(layer.value_input), layer.output))
        splits.append(one_walk.residual(layer.walk, layer.value_input))

    returned = first(watched.stream(inputs, rebuild))

    assert not watched.refused
    assert len(watched.sites) == LAYERS.get(family, 3)
    assert len(residuals) == 2 * len(watched.sites)
    assert max(residuals) <= tolerance.reconstruction(dtype)
    assert max(splits) <= tolerance.reconstruction(torch.float64)
    assert torch.equal(returned, unwatched(model, inputs))


@pytest.mark.parametrize("family", FAMILIES)
def test_layout_is_what_the_configuration_says(family: str) -> None:
    watched = watch(make_tiny(family))
    heads, values = HEADS.get(family, (4, 2 if family in GROUPED else 4))
    assert {s.n_heads for s in watched.sites} == {heads}
    assert {s.n_kv_heads for s in watched.sites} == {values}
    assert {s.kind for s in watched.sites} == (
        {"plain", "cross"} if family == "bart" else {"plain"}
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_sdpa_as_loaded_gives_what_eager_gives(family: str) -> None:
    eager = make_tiny(family, attn="eager")
    if not getattr(eager, "_supports_sdpa", False):
        pytest.skip("the family has no sdpa attention")
    sdpa = make_tiny(family, attn="sdpa")
    inputs = tiny_inputs(eager, 9, 2, 2)
    assert sdpa.config._attn_implementation == "sdpa"
    seen: dict[str, list[Tensor]] = {"eager": [], "sdpa": []}
    returned = {}
    for name, model in (("eager", eager), ("sdpa", sdpa)):
        returned[name] = first(
            watch(model).stream(inputs, lambda layer, name=name: seen[name].append(layer.attention))
        )
    assert torch.equal(returned["eager"], returned["sdpa"])
    assert all(torch.equal(a, b) for a, b in zip(seen["eager"], seen["sdpa"], strict=True))
    assert sdpa.config._attn_implementation == "sdpa"


def test_albert_has_six_different_attentions_of_one_module() -> None:
    model = make_tiny("albert")
    watched = watch(model)
    assert [s.layer for s in watched.sites] == [0, 1, 2, 3, 4, 5]
    assert [s.call for s in watched.sites] == [0, 1, 2, 3, 4, 5]
    assert len({s.path for s in watched.sites}) == 1
    seen: list[Tensor] = []
    watched.stream(tiny_inputs(model, 8), lambda layer: seen.append(layer.attention))
    differences = [float((a - b).abs().max()) for a, b in itertools.pairwise(seen)]
    assert min(differences) > 1e-3


def test_bart_has_three_stacks_and_cross_attention_is_rectangular() -> None:
    model = make_tiny("bart")
    watched = watch(model)
    shapes: dict[str, set[tuple[int, ...]]] = {}

    def note(layer: CapturedLayer) -> None:
        shapes.setdefault(layer.site.stack, set()).add(tuple(layer.attention.shape))

    inputs = tiny_inputs(model, 10)
    inputs["decoder_input_ids"] = inputs["decoder_input_ids"][:, :7]
    watched.stream(inputs, note)
    assert shapes == {"encoder": {(4, 10, 10)}, "decoder": {(4, 7, 7)}, "cross": {(4, 7, 10)}}
    assert [(s.stack, s.layer) for s in watched.sites if s.stack == "cross"] == [
        ("cross", 0),
        ("cross", 1),
    ]


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2", "falcon-new", "bloom", "gptj"])
def test_layer_numbers_are_those_of_the_path(family: str) -> None:
    for site in watch(make_tiny(family)).sites:
        assert str(site.layer) in site.path.split(".")
