"""Objects of other tools are taken for the network inside, and never without it."""

import importlib.util
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import conwalk as cw
from as_found import left_as_found
from conwalk.models import load
from tiny_models import make_tiny

TOKENS = [[5, 9, 3, 17, 4, 8]]


def of(home: str, name: str, *bases: type) -> type:
    """A class as another package would define it."""
    return type(name, bases, {"__module__": home})


class Holder:
    """What holds a network, and the tokenizer beside it."""

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)


class BridgedLinear(nn.Module):
    """A projection that a bridge lays its own module around; it minds what is set on it."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self._original_component = inside
        self.hook_out = nn.Identity()

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_original_component"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("weight", "bias"):
            raise AttributeError(f"{name} belongs to the original component")
        super().__setattr__(name, value)

    def forward(self, x: Tensor) -> Tensor:
        return self.hook_out(self._original_component(x))


def bridged() -> Any:
    model = make_tiny("llama")
    for layer in model.layers:
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(layer.self_attn, name, BridgedLinear(getattr(layer.self_attn, name)))
    return model


HOLDERS = [
    ("nnsight.modeling.base", "NNsight", "_module"),
    ("nnsight.modeling.language", "NNsight", "_model"),
    ("nnsight.intervention.envoy", "Envoy", "_module"),
    ("transformer_lens.model_bridge.transformer_bridge", "TransformerBridge", "original_model"),
    ("transformers.pipelines.text_generation", "Pipeline", "model"),
    ("transformers.trainer", "Trainer", "model"),
    ("deepspeed.runtime.engine", "DeepSpeedEngine", "module"),
]


@pytest.mark.parametrize(("home", "name", "attribute"), HOLDERS)
def test_the_network_inside_is_analysed(home: str, name: str, attribute: str) -> None:
    inside = make_tiny("llama")
    kind = of(f"{home}", "Special", of(home, name, Holder))
    holder = kind(**{attribute: inside, "tokenizer": None})
    with left_as_found(inside):
        assert cw.verify(holder, TOKENS).exact
    loaded = load(holder)
    assert loaded.module is inside
    assert loaded.notes[0] == "the LlamaModel inside the Special that was given is analysed"


def test_its_tokenizer_is_taken_unless_another_is_given() -> None:
    own, other = SimpleNamespace(name="own"), SimpleNamespace(name="other")
    pipe = of("transformers.pipelines.base", "Pipeline", Holder)(
        model=make_tiny("llama"), tokenizer=own
    )
    assert load(pipe).tokenizer is own
    assert load(pipe, tokenizer=other).tokenizer is other


def test_a_name_alone_is_not_enough() -> None:
    stranger = of("somebody.elses", "NNsight", Holder)(_module=make_tiny("llama"))
    with pytest.raises(cw.SourceError, match="NNsight is no model"):
        load(stranger)
    empty = of("nnsight", "NNsight", Holder)(_module=None)
    with pytest.raises(cw.SourceError, match="NNsight is no model"):
        load(empty)


def test_weights_that_a_tool_has_not_loaded_yet_are_asked_for() -> None:
    lazy = of("nnsight", "NNsight", Holder)(_module=make_tiny("llama").to("meta"))
    with pytest.raises(cw.SourceError, match="not loaded"):
        cw.analyze(lazy, TOKENS)


def test_projections_inside_a_bridge() -> None:
    model = bridged()
    with left_as_found(model):
        found = cw.verify(model, TOKENS)
    assert found.exact
    assert [p.name for p in found.layers] == ["0", "1", "2"]
    plain = cw.walk(make_tiny("llama"), TOKENS, layer=1).transports
    assert torch.equal(cw.walk(model, TOKENS, layer=1).transports.W_V, plain.W_V)


class HookedAttention(nn.Module):
    """Attention with its weights by head, rearranged for every pass, and points for hooks."""

    def __init__(self, width: int, heads: int, key_value_heads: int) -> None:
        super().__init__()
        k = width // heads
        self.groups = heads // key_value_heads
        self.W_Q = nn.Parameter(torch.randn(heads, width, k) * 0.3)
        self._W_K = nn.Parameter(torch.randn(key_value_heads, width, k) * 0.3)
        self._W_V = nn.Parameter(torch.randn(key_value_heads, width, k) * 0.3)
        self.W_O = nn.Parameter(torch.randn(heads, k, width) * 0.3)
        self.b_Q = nn.Parameter(torch.randn(heads, k))
        self._b_V = nn.Parameter(torch.randn(key_value_heads, k))
        self.b_O = nn.Parameter(torch.randn(width))
        self.hook_v, self.hook_pattern, self.hook_z = (nn.Identity() for _ in range(3))

    @property
    def W_V(self) -> Tensor:
        return torch.repeat_interleave(self._W_V, dim=0, repeats=self.groups)

    def project(self, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        flat = w.permute(0, 2, 1).reshape(-1, w.shape[1])
        return functional.linear(x, flat, b.reshape(-1)).unflatten(-1, (w.shape[0], w.shape[2]))

    def forward(self, x: Tensor) -> Tensor:
        q = self.project(x, self.W_Q, self.b_Q)
        w_k = torch.repeat_interleave(self._W_K, dim=0, repeats=self.groups)
        k = self.project(x, w_k, torch.zeros_like(self.b_Q))
        b_v = torch.repeat_interleave(self._b_V, dim=0, repeats=self.groups)
        v = self.hook_v(self.project(x, self.W_V, b_v))
        scores = torch.einsum("bqhk,bjhk->bhqj", q, k)
        pattern = scores.softmax(-1)
        pattern = torch.where(torch.isnan(pattern), torch.zeros_like(pattern), pattern)
        z = torch.einsum("bhqj,bjhk->bqhk", self.hook_pattern(pattern), v)
        out = self.W_O.permute(2, 0, 1).reshape(self.W_O.shape[2], -1)
        return functional.linear(self.hook_z(z).flatten(2), out, self.b_O)


class Hooked(nn.Module):
    """Two such layers that read ``input``."""

    def __init__(self, key_value_heads: int = 4) -> None:
        super().__init__()
        self.W_E = nn.Parameter(torch.randn(20, 16))
        self.blocks = nn.ModuleList(HookedAttention(16, 4, key_value_heads) for _ in range(2))

    def forward(self, input: Tensor) -> Tensor:
        x = self.W_E[input, :]
        for block in self.blocks:
            x = x + block(x)
        return x


@pytest.mark.parametrize("key_value_heads", [4, 2])
def test_weights_by_head_that_are_rearranged_in_every_pass(key_value_heads: int) -> None:
    torch.manual_seed(0)
    model = Hooked(key_value_heads)
    with left_as_found(model):
        found = cw.verify(model, TOKENS)
        walk = cw.walk(model, TOKENS, layer=1)
    assert found.exact
    assert [p.site.kind for p in found.layers] == ["plain", "plain"]
    assert found.layers[1].site.value.path == "blocks.1._W_V"
    attention = model.blocks[1]
    for head in range(4):
        expected = attention.W_V[head] @ attention.W_O[head]
        assert torch.allclose(walk.transports.matrix(head), expected, atol=1e-6)


def needs(package: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed")


@needs("nnsight")
@pytest.mark.filterwarnings("default")
def test_nnsight_itself() -> None:
    nnsight: ModuleType = pytest.importorskip("nnsight")
    for family in ("llama", "gpt2"):
        inside = make_tiny(family, auto="AutoModelForCausalLM")
        model = nnsight.NNsight(inside)
        with left_as_found(inside):
            assert cw.verify(model, TOKENS).exact


@needs("transformer_lens")
@pytest.mark.filterwarnings("default")
def test_transformer_lens_itself() -> None:
    lens: ModuleType = pytest.importorskip("transformer_lens")
    try:
        config = lens.HookedTransformerConfig(
            n_layers=2, d_model=16, n_ctx=32, d_head=4, n_heads=4, d_vocab=50, act_fn="gelu",
        )  # fmt: skip
    except ImportError:
        pytest.skip("HookedTransformer is gone in this version")
    model = lens.HookedTransformer(config)
    with left_as_found(model):
        found = cw.verify(model, TOKENS)
        walk = cw.walk(model, TOKENS, layer=1)
    assert found.exact
    assert torch.allclose(walk.transports.matrix(1), model.W_V[1, 1] @ model.W_O[1, 1], atol=1e-6)


@needs("transformer_lens")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("compatible", [False, True])
@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox"])
def test_a_bridge_itself(family: str, compatible: bool, tmp_path: Any) -> None:
    bridges: ModuleType = pytest.importorskip("transformer_lens.model_bridge")
    transformers: ModuleType = pytest.importorskip("transformers")
    tokenizers: ModuleType = pytest.importorskip("tokenizers")
    words = tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(words),
        pad_token="a", eos_token="b", bos_token="b", unk_token="a",
    )  # fmt: skip
    tokenizer.save_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    model = make_tiny(family, auto="AutoModelForCausalLM")
    model.save_pretrained(tmp_path)
    bridge = bridges.TransformerBridge.boot_transformers(
        str(tmp_path), hf_model=model, tokenizer=tokenizer
    )
    if compatible:
        bridge.enable_compatibility_mode()
    with left_as_found(bridge.original_model):
        assert cw.verify(bridge, TOKENS).exact
