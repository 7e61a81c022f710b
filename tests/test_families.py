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
HEADS = {"qwen2": (14, 2), "falcon": (4, 1), "diffllama": (2, 1)}
GROUPED = {
    "llama",
    "mistral",
    "qwen3",
    "gemma",
    "gemma2",
    "gemma3_text",
    "olmo2",
    "falcon-new",
    "granite_swa",
}
KINDS = {
    "bart": {"plain", "cross"},
    "diffllama": {"signed"},
    "deepseek_v3": {"latent"},
    "granite_swa": {"leak"},
}


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
def test_captured_values_are_those_of_every_value_head(family: str) -> None:
    model = make_tiny(family, dtype=torch.float64)
    caught: list[CapturedLayer] = []
    watch(model).stream(tiny_inputs(model, 12, 2, 3), caught.append)
    for layer in caught:
        made = layer.value_input @ layer.transports.W_V
        if layer.transports.b_V is not None:
            made = made + layer.transports.b_V[:, None]
        assert layer.value.shape == made.shape
        assert torch.allclose(layer.value, made, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_layout_is_what_the_configuration_says(family: str) -> None:
    watched = watch(make_tiny(family))
    heads, values = HEADS.get(family, (4, 2 if family in GROUPED else 4))
    assert {s.n_heads for s in watched.sites} == {heads}
    assert {s.n_kv_heads for s in watched.sites} == {values}
    assert {s.kind for s in watched.sites} == KINDS.get(family, {"plain"})


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


def test_transformers_own_hooks_do_not_pile_up() -> None:
    """Transformers hooks a model once it is asked for hidden states, and marks it as hooked."""
    model = make_tiny("llama")
    model.config.output_hidden_states = True
    inputs = tiny_inputs(model, 6)
    with torch.no_grad():
        expected = len(model(**inputs).hidden_states)
    for _ in range(2):
        model = make_tiny("llama")
        model.config.output_hidden_states = True
        watched = watch(model)
        assert not any(m._forward_hooks for m in model.modules())
        returned = watched.stream(inputs, lambda _: None)
        assert len(returned.hidden_states) == expected


def test_differential_attention_is_one_signed_walk() -> None:
    model = make_tiny("diffllama")
    watched = watch(model)
    assert [(s.kind, s.n_heads, s.value_width) for s in watched.sites] == [("signed", 2, 32)] * 3
    caught: list[CapturedLayer] = []
    inputs = tiny_inputs(model, 7)
    watched.stream(inputs, caught.append)
    attention = model.layers[0].self_attn
    x = caught[0].value_input
    values = attention.v_proj(x).view(7, 2, 16).flatten(1)
    lam = (
        (attention.lambda_q1 * attention.lambda_k1).sum().exp()
        - (attention.lambda_q2 * attention.lambda_k2).sum().exp()
        + attention.lambda_init
    )
    assert caught[0].site.subtracted == pytest.approx(-lam.item(), rel=1e-5)
    mixed = caught[0].attention @ values
    # the norm of each head, at every query, is in the weights
    root = mixed.square().mean(-1).sqrt()
    assert torch.allclose(root, torch.full_like(root, 1 - attention.lambda_init), atol=1e-4)


@pytest.mark.parametrize(("family", "window"), [("mistral", 4), ("llama", None)])
def test_window_is_named_and_seen(family: str, window: int | None) -> None:
    model = make_tiny(family)
    watched = watch(model)
    seen: list[int] = []
    watched.stream(tiny_inputs(model, 9), lambda layer: seen.append(layer.reach))
    assert {s.reach for s in watched.sites} == {window}
    assert set(seen) == {window or 9}
