"""Adapters that are not merged: the maps are those of the weights they amount to."""

import functools
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import conwalk as cw
from as_found import left_as_found
from conwalk.models.affine import affine_modules
from tiny_models import make_tiny

# peft asks transformers in ways that are about to change, and remarks on what it is asked for
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
TOKENS = [[5, 9, 3, 17, 4, 8]]
VALUE_AND_OUTPUT = ["q_proj", "v_proj", "o_proj"]


def randomised(module: nn.Module, seed: int = 1) -> nn.Module:
    """Adapters start as nothing: give what is trained of them values."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            if p.requires_grad:
                p.add_(torch.randn(p.shape, generator=generator) * 0.2)
    return module


def maps(module: Any) -> list[Tensor]:
    """Head maps and value biases of every layer."""
    found: list[Tensor] = []
    for layer in range(3):
        transports = cw.walk(module, TOKENS, layer).transports
        found += [transports.matrix(head) for head in range(transports.n_heads)]
        biases = transports.affine()
        found.append(torch.zeros(1) if biases is None else biases)
    return found


def assert_close(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def differ(found: list[Tensor], expected: list[Tensor]) -> bool:
    return not all(torch.allclose(a, b, rtol=1e-2) for a, b in zip(found, expected, strict=True))


@functools.cache
def adapters() -> Mapping[str, Callable[[], Any]]:
    peft = pytest.importorskip("peft")
    lora = functools.partial(peft.LoraConfig, target_modules=VALUE_AND_OUTPUT, r=4)
    return {
        "LoRA": functools.partial(lora, lora_dropout=0.5),
        "LoRA with biases": functools.partial(lora, lora_bias=True),
        "DoRA": functools.partial(lora, use_dora=True),
        "IA3": functools.partial(
            peft.IA3Config, target_modules=["v_proj", "o_proj"], feedforward_modules=["o_proj"]
        ),
        "LoHa": functools.partial(peft.LoHaConfig, target_modules=VALUE_AND_OUTPUT, r=4),
        "AdaLoRA": functools.partial(
            peft.AdaLoraConfig, target_modules=VALUE_AND_OUTPUT, total_step=10
        ),
        "OFT": functools.partial(
            peft.OFTConfig, target_modules=VALUE_AND_OUTPUT, r=0, oft_block_size=4
        ),
        "a module of its own": functools.partial(
            peft.LoraConfig, target_modules=["v_proj"], r=4, modules_to_save=["o_proj"]
        ),
    }


NAMES = [
    "LoRA", "LoRA with biases", "DoRA", "IA3", "LoHa", "AdaLoRA", "OFT", "a module of its own",
]  # fmt: skip


def plain() -> nn.Module:
    return make_tiny("llama", auto="AutoModelForCausalLM", attention_bias=True)


def adapted(name: str) -> Any:
    peft = pytest.importorskip("peft")
    base = plain()
    return randomised(peft.get_peft_model(base, adapters()[name]()))


@pytest.mark.parametrize("name", NAMES)
def test_the_maps_are_those_of_the_merged_model(name: str) -> None:
    model = adapted(name).train()
    with left_as_found(model):
        found = cw.verify(model, TOKENS)
        unmerged = maps(model)
    assert found.exact
    assert {p.verdict for p in found.layers} == {"exact"}
    assert differ(unmerged, maps(plain()))
    assert_close(unmerged, maps(model.eval().merge_and_unload()))


def test_adapters_that_are_disabled_merged_or_several_are_what_they_amount_to() -> None:
    model = adapted("LoRA")
    before = maps(plain())
    with model.disable_adapter():
        assert_close(maps(model), before)
    one = maps(model)
    model.add_adapter("second", adapters()["LoRA"]())
    model.set_adapter("second")
    randomised(model, seed=2)
    second = maps(model)
    assert differ(second, one)
    assert differ(second, before)
    model.base_model.set_adapter(["default", "second"])
    both = maps(model)
    assert differ(both, second)
    model.merge_adapter()
    assert_close(maps(model), both)
    model.unmerge_adapter()
    model.add_weighted_adapter(["default", "second"], [0.5, 2.0], "mixture", "cat")
    model.set_adapter("mixture")
    assert cw.verify(model, TOKENS).exact


def test_of_projections_that_lie_in_one_layer() -> None:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["c_attn", "c_proj"], r=4, fan_in_fan_out=True)
    model = randomised(peft.get_peft_model(make_tiny("gpt2"), config))
    assert cw.verify(model, TOKENS).exact
    assert_close(maps(model), maps(model.merge_and_unload()))


def test_numbers_kept_of_the_weights_are_not_those_of_another_adapter() -> None:
    model = adapted("LoRA")
    seen = []
    for context in (nullcontext(), model.disable_adapter(), nullcontext()):
        with context:
            seen.append(cw.analyze(model, TOKENS)["rho"].values)
    assert (seen[0] == seen[2]).all()
    assert (seen[0] != seen[1]).any()


def test_the_gain_of_the_norm_before_an_adapted_projection_is_found() -> None:
    folded = [n for n in cw.analyze(adapted("LoRA"), TOKENS).data_vars if "folded" in str(n)]
    assert folded
    found = cw.analyze(adapted("LoRA"), TOKENS)
    assert all(bool(found[name].notnull().any()) for name in folded)


@pytest.mark.parametrize("kind", ["PromptTuningConfig", "PrefixTuningConfig"])
def test_adapters_that_put_tokens_before_the_text_are_refused(kind: str) -> None:
    peft = pytest.importorskip("peft")
    base = plain()
    config = getattr(peft, kind)(task_type="CAUSAL_LM", num_virtual_tokens=3)
    model = peft.get_peft_model(base, config)
    with left_as_found(model), pytest.raises(cw.SourceError, match="virtual tokens"):
        cw.analyze(model, TOKENS)


def test_adapters_that_choose_by_the_input_are_refused() -> None:
    peft = pytest.importorskip("peft")
    base = plain()
    config = peft.LoraConfig(
        target_modules=["v_proj"], r=4, alora_invocation_tokens=[7], task_type="CAUSAL_LM"
    )
    with pytest.raises(cw.SourceError, match="chooses adapters by the input"):
        cw.verify(peft.get_peft_model(base, config), TOKENS)


class LowRank(nn.Module):
    """Somebody's own adapter: low-rank weights beside a projection, in a module of their own."""

    def __init__(self, base: nn.Linear, rank: int = 3) -> None:
        super().__init__()
        self.base = base
        self.A = nn.Parameter(torch.randn(base.in_features, rank) * 0.3)
        self.B = nn.Parameter(torch.randn(rank, base.out_features) * 0.3)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + 2 * (self.dropout(x) @ self.A @ self.B)

    def amounts_to(self) -> Tensor:
        return self.base.weight + 2 * (self.A @ self.B).t()


class Bottleneck(LowRank):
    """The same with a nonlinearity: no matrix is this layer's."""

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + torch.relu(x @ self.A) @ self.B


class ByPosition(LowRank):
    """Adapted more and more along the text."""

    def forward(self, x: Tensor) -> Tensor:
        place = torch.arange(x.shape[1], dtype=x.dtype)[None, :, None]
        return self.base(x) + place * (x @ self.A @ self.B)


class Packed(nn.Linear):
    """A quantised layer: whole numbers and a scale, unpacked when it runs."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__(base.in_features, base.out_features, bias=base.bias is not None)
        scale = base.weight.detach().abs().amax() / 7
        self.weight = nn.Parameter((base.weight.detach() / scale).round().char(), False)
        self.register_buffer("scale", scale)
        self.bias = base.bias

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.amounts_to(), self.bias)

    def amounts_to(self) -> Tensor:
        return self.weight.float() * self.scale


class RoundsItsInput(Packed):
    """Quantised activations: what it does to a vector is no linear map."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward((x * 4).round() / 4)


def replaced(kind: Callable[[nn.Linear], nn.Module], *names: str) -> nn.Module:
    torch.manual_seed(0)
    model = make_tiny("llama")
    for layer in model.layers:
        for name in names:
            setattr(layer.self_attn, name, kind(getattr(layer.self_attn, name)))
    return model


@pytest.mark.parametrize("kind", [LowRank, Packed])
@pytest.mark.parametrize("names", [("v_proj",), ("o_proj",), ("v_proj", "o_proj")])
def test_somebodys_own_layers_need_no_adapter(
    kind: Callable[[nn.Linear], nn.Module], names: tuple[str, ...]
) -> None:
    model = replaced(kind, *names).train()
    with left_as_found(model):
        found = cw.verify(model, TOKENS)
        seen = maps(model)
    assert found.exact
    assert {p.verdict for p in found.layers} == {"exact"}
    for layer in model.layers:
        for name in names:
            own = getattr(layer.self_attn, name)
            plain = nn.Linear(own.amounts_to().shape[1], own.amounts_to().shape[0], bias=False)
            plain.weight = nn.Parameter(own.amounts_to().detach())
            setattr(layer.self_attn, name, plain)
    assert_close(seen, maps(model))


@pytest.mark.parametrize("kind", [Bottleneck, ByPosition, RoundsItsInput])
@pytest.mark.parametrize("name", ["v_proj", "o_proj"])
def test_layers_that_are_no_matrix_are_refused(
    kind: Callable[[nn.Linear], nn.Module], name: str
) -> None:
    model = replaced(kind, name)
    assert not affine_modules(model, {"input_ids": torch.tensor(TOKENS)})
    try:
        found = cw.verify(model, TOKENS)
    except cw.CaptureError:
        return
    assert not found.exact
    assert len(found.refused) == 3


class Doubled(nn.Module):
    """A projection in two steps, as one module."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.steps = nn.Sequential(
            nn.Linear(base.in_features, 5), nn.Dropout(0.3), nn.Linear(5, base.out_features)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.steps(x)


def test_what_counts_as_one_layer_is_the_outermost_affine_module() -> None:
    model = replaced(Doubled, "v_proj")
    found = affine_modules(model, {"input_ids": torch.tensor(TOKENS)})
    assert set(found) == {layer.self_attn.v_proj for layer in model.layers}
    x = torch.randn(2, 4, 64)
    for module, record in found.items():
        with torch.no_grad():
            expected = module.eval()(x)
        assert torch.allclose(x @ record.matrix() + record.bias, expected, atol=1e-5)
        assert torch.equal(record.forward(x), expected)


def test_modules_of_one_plain_layer_are_left_to_it() -> None:
    model = replaced(lambda base: nn.Sequential(base, nn.Dropout(0.1)), "v_proj", "o_proj")
    assert not affine_modules(model, {"input_ids": torch.tensor(TOKENS)})
    assert cw.verify(model, TOKENS).exact


@pytest.mark.parametrize("broken", [0, 2])
def test_a_branch_beside_one_output_projection_costs_that_layer_only(broken: int) -> None:
    model = make_tiny("llama")
    attention = model.layers[broken].self_attn
    attention.o_proj = Bottleneck(attention.o_proj)
    found = cw.verify(model, TOKENS)
    assert [p.site.layer for p in found.layers] == [n for n in range(3) if n != broken]
    assert all(p.exact for p in found.layers)
    (refused,) = found.refused
    assert refused.name.startswith(f"layer {broken} ")
    assert "read by more than the output projection" in refused.reason
    with pytest.raises(cw.CaptureError, match=f"layer {broken} .* read by more than"):
        cw.walk(model, TOKENS, layer=broken)


class Inline(nn.Module):
    """Attention whose forward adds a low-rank branch itself, beside its output projection."""

    def __init__(self, *, branch: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 12)
        self.value, self.out = nn.Linear(12, 12), nn.Linear(12, 12)
        self.down, self.up = nn.Linear(12, 3), nn.Linear(3, 12)
        self.branch = branch

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embed(input_ids)
        heads = (x @ x.transpose(-1, -2)).softmax(-1) @ self.value(x)
        out = self.out(heads)
        return x + out + self.up(self.down(heads)) if self.branch else x + out


def test_a_branch_that_attention_adds_itself_is_refused() -> None:
    assert cw.verify(Inline(branch=False), [[1, 2, 3]]).exact
    with pytest.raises(cw.CaptureError, match="read by more than the output projection"):
        cw.walk(Inline(branch=True), [[1, 2, 3]], layer=0)
