"""Folding a norm's gain into the head maps, and finding that gain by watching."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from conwalk.capture import watch
from conwalk.connection import HeadTransports
from conwalk.connection.fold import fold
from conwalk.errors import SelectionError, ShapeError
from conwalk.metrics import composition, isometry, sink
from conwalk.metrics.folded import folded
from conwalk.models import norms, probe
from conwalk.nulls import gaussian
from dense_reference import head_maps
from tiny_models import make_tiny
from walk_cases import WalkCase, walk_cases

# a norm that feeds the second layer's values, by family, and what it adds to its weight
NORMS = {
    "gpt2": ("h.1.ln_1.weight", 0.0),
    "bert": ("encoder.layer.0.output.LayerNorm.weight", 0.0),
    "albert": ("encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm.weight", 0.0),
    "t5": ("encoder.block.1.layer.0.layer_norm.weight", 0.0),
    "falcon-new": ("h.1.ln_attn.weight", 0.0),
    "mpt": ("blocks.1.norm_1.weight", 0.0),
    "llama": ("layers.1.input_layernorm.weight", 0.0),
    "gemma": ("layers.1.input_layernorm.weight", 1.0),
    "gemma3_text": ("layers.1.input_layernorm.weight", 1.0),
    "vit": ("layers.1.layernorm_before.weight", 0.0),
}


@given(walk_cases(), st.integers(0, 99))
def test_folded_maps_are_the_gain_times_the_maps(case: WalkCase, seed: int) -> None:
    gain = torch.randn(
        case.W_V.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    maps = case.walk.transports
    found = fold(maps, gain)
    dense = np.diag(gain.numpy()) @ head_maps(case.W_V, case.W_O)
    np.testing.assert_allclose(head_maps(found.W_V, found.W_O), dense, atol=1e-12)
    assert found.W_O is maps.W_O
    assert (found.b_V is None) == (case.b_V is None)
    sigma = np.linalg.svd(dense, compute_uv=False)
    rank = min(sigma.shape[1], maps.value_width)
    np.testing.assert_allclose(found.singular_values()[:, :rank], sigma[:, :rank], atol=1e-10)


@pytest.mark.parametrize(
    "gain", [torch.ones(4), torch.ones(3, dtype=torch.float64), torch.tensor([1.0, 2.0, torch.nan])]
)
def test_a_gain_that_does_not_fit_is_refused(gain: Tensor) -> None:
    maps = HeadTransports(torch.ones(2, 3, 2), torch.ones(2, 2, 3))
    with pytest.raises(ShapeError, match="gain"):
        fold(maps, gain)


def test_a_folded_metric_is_the_metric_under_another_name() -> None:
    metric = folded(isometry.METRIC)
    assert metric.name == "isometry_folded"
    assert [q.name for q in metric.quantities] == ["rho_folded"]
    assert metric.needs == isometry.METRIC.needs
    sigma = torch.tensor([[3.0, 1.0], [2.0, 2.0]])
    found = metric.compute(sigma)
    assert found.keys() == {"rho_folded"}
    assert torch.equal(found["rho_folded"], isometry.isometry_score(sigma))


def test_a_folded_metric_names_its_folded_null() -> None:
    nulls = {q.name: q.null for q in folded(composition.WITHIN).quantities}
    assert nulls["self_composition_folded"] == "composition_chance_folded"
    assert nulls["composition_chance_folded"] is None
    (rho,) = folded(isometry.METRIC).quantities
    assert rho.null == isometry.METRIC.quantities[0].null


def test_a_metric_of_more_than_weights_has_no_folded_variant() -> None:
    with pytest.raises(SelectionError, match="sink reads rows"):
        folded(sink.METRIC)


def gains(model: nn.Module) -> list[Tensor | None]:
    return norms.value_gains(model, watch(model).sites, probe.tiny(model))


CASES = [(family, torch.float32) for family in sorted(NORMS)] + [
    (family, dtype)
    for family in ("gpt2", "llama", "gemma")
    for dtype in (torch.float64, torch.bfloat16, torch.float16)
]


@pytest.mark.parametrize(("family", "dtype"), CASES)
def test_the_gain_is_that_of_the_norm_before_the_values(family: str, dtype: torch.dtype) -> None:
    model = make_tiny(family, dtype=dtype)
    name, added = NORMS[family]
    weight = dict(model.named_parameters())[name].detach()
    found = gains(model)
    assert all(g is not None and g.dtype == dtype for g in found)
    # norms compute in float32 whatever the dtype of the model, and 1 + w may lie half way
    # between two numbers of a short one
    ulp = max(torch.finfo(dtype).eps, 4 * torch.finfo(torch.float32).eps)
    torch.testing.assert_close(found[1].double(), added + weight.double(), rtol=ulp, atol=ulp / 8)


def test_values_without_a_norm_before_them_have_no_gain() -> None:
    """The norms of OLMo 2 come after attention."""
    assert gains(make_tiny("olmo2")) == [None] * 3


def test_dividing_by_the_gain_leaves_normalised_vectors() -> None:
    model = make_tiny("llama")
    watched = watch(model)
    seen: list[Tensor] = []
    watched.stream(probe.tiny(model), lambda layer: seen.append(layer.value_input))
    for gain, x in zip(gains(model), seen, strict=True):
        sizes = (x / gain).square().mean(-1)
        torch.testing.assert_close(sizes, torch.ones_like(sizes), rtol=1e-3, atol=0)


def test_the_gain_of_cross_attention_is_that_of_the_encoder() -> None:
    model = make_tiny("bart")
    found = dict(zip([s.path for s in watch(model).sites], gains(model), strict=True))
    last = model.encoder.layers[-1].final_layer_norm.weight.detach()
    torch.testing.assert_close(found["decoder.layers.1.encoder_attn"], last)


class Scale(nn.Module):
    """Has the parameters of a norm, and is none."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.weight = nn.Parameter(torch.linspace(0.5, 2.0, 8))

    def forward(self, x: Tensor) -> Any:
        normalised = x / x.square().mean(-1, keepdim=True).sqrt()
        match self.kind:
            case "scale":
                return self.weight * x
            case "gated":
                return self.weight * normalised * torch.sigmoid(normalised)
            case "pair":
                return self.weight * normalised, x
            case "narrow":
                return (self.weight * normalised)[..., :4]
            case "nan":
                return x * torch.nan
            case _:
                return self.weight * normalised


class Two(Scale):
    """A norm that takes a gate beside its input."""

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        return super().forward(x) * gate


@pytest.mark.parametrize("kind", ["scale", "gated", "pair", "narrow", "nan"])
def test_what_is_no_norm_has_no_gain(kind: str) -> None:
    assert norms.gain(Scale(kind)) is None


def test_what_is_measured_is_what_the_module_does() -> None:
    torch.testing.assert_close(norms.gain(Scale("norm")), torch.linspace(0.5, 2.0, 8))
    assert norms.gain(Two("norm")) is None
    assert norms.gain(nn.Linear(8, 8)) is None
    assert norms.gain(nn.Identity()) is None
    assert norms.gain(nn.LayerNorm((2, 8))) is None
    centred = nn.LayerNorm(8)
    nn.init.normal_(centred.weight)
    nn.init.constant_(centred.bias, 3.0)
    torch.testing.assert_close(norms.gain(centred), centred.weight.detach())


def test_the_model_is_left_as_it_was_found() -> None:
    model = make_tiny("gemma").train()
    before = {n: (p, p.clone()) for n, p in model.named_parameters()}
    gains(model)
    assert all(m.training for m in model.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    for name, parameter in model.named_parameters():
        same, values = before[name]
        assert parameter is same
        assert torch.equal(parameter, values)


def median_rho(model: Any, *, fold_gain: bool) -> float:
    sites = watch(model.module).sites
    found = norms.value_gains(model.module, sites, probe.tiny(model.module))
    scores = [
        isometry.isometry_score(
            (fold(s.transports, g) if fold_gain and g is not None else s.transports)
            .singular_values()
        )
        for s, g in zip(sites, found, strict=True)
    ]  # fmt: skip
    assert all(g is not None for g in found)
    return float(torch.cat(scores).median())


def null_rho(d: int, k: int) -> float:
    draws = gaussian.singular_values(d, d, k, draws=64, seed=0)
    return float(isometry.isometry_score(draws).mean())


def test_rho_of_smollm(smollm: Any) -> None:
    assert median_rho(smollm, fold_gain=False) == pytest.approx(0.947, abs=1e-3)
    assert median_rho(smollm, fold_gain=True) == pytest.approx(0.943, abs=1e-3)
    assert null_rho(576, 64) == pytest.approx(0.972, abs=1e-3)


def test_rho_of_minilm(minilm: Any) -> None:
    assert median_rho(minilm, fold_gain=False) == pytest.approx(0.965, abs=1e-3)
    assert null_rho(384, 32) == pytest.approx(0.979, abs=1e-3)
