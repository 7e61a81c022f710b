"""What training puts around a network, or changes about it, does not change what it is."""

import copy
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize
from torch.optim.swa_utils import AveragedModel

import conwalk as cw
from as_found import left_as_found
from conwalk.capture import CapturedLayer, watch
from conwalk.models import load
from conwalk.models.unwrap import unwrap
from tiny_models import make_tiny, tiny_inputs

TOKENS = [[5, 9, 3, 17, 4, 8]]


def output(module: Any) -> Tensor:
    """What the module inside puts out under watch."""
    inside = load(module).module
    return watch(inside).stream(tiny_inputs(inside, 6), lambda layer: None)[0]


def assert_alike(wrapped: Any, plain: nn.Module) -> None:
    """Found in the same places, with the same numbers, as if nothing were around it."""
    found, expected = cw.verify(wrapped, TOKENS), cw.verify(plain, TOKENS)
    assert found.exact
    assert [p.name for p in found.layers] == [p.name for p in expected.layers] == ["0", "1", "2"]
    assert [p.residual for p in found.layers] == [p.residual for p in expected.layers]
    assert torch.equal(output(wrapped), output(plain))


def whole(model: nn.Module) -> nn.Module:
    return torch.compile(model, backend="eager")


def ahead_of_time(model: nn.Module) -> nn.Module:
    return torch.compile(model, backend="aot_eager")


def in_place(model: nn.Module) -> nn.Module:
    model.compile(backend="eager")
    return model


def one_layer(model: nn.Module) -> nn.Module:
    model.layers[1] = torch.compile(model.layers[1], backend="eager")
    return model


def every_layer_in_place(model: nn.Module) -> nn.Module:
    for layer in model.layers:
        layer.compile(backend="eager")
    return model


def single_projections(model: nn.Module) -> nn.Module:
    for layer in model.layers:
        attention = layer.self_attn
        attention.v_proj = torch.compile(attention.v_proj, backend="eager")
        attention.o_proj.compile(backend="eager")
    return model


COMPILED = [
    whole, ahead_of_time, in_place, one_layer, every_layer_in_place, single_projections,
]  # fmt: skip


@pytest.mark.parametrize("compiled", COMPILED)
@pytest.mark.parametrize("used", [True, False])
def test_compiled(compiled: Callable[[nn.Module], nn.Module], used: bool) -> None:
    plain = make_tiny("llama")
    model = compiled(copy.deepcopy(plain))
    inputs = tiny_inputs(plain, 6)
    with torch.no_grad():
        before = model(**inputs)[0] if used else None
    with left_as_found(model):
        assert_alike(model, plain)
    if used:
        with torch.no_grad(), torch.compiler.set_stance("fail_on_recompile"):
            assert torch.equal(model(**inputs)[0], before)


class CompiledFunction(nn.Module):
    """Attention in a function that is compiled by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 12)
        self.qkv, self.out = nn.Linear(12, 36), nn.Linear(12, 12)
        self.attend = torch.compile(self.plainly, backend="eager")

    @staticmethod
    def plainly(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.transpose(-1, -2)).softmax(-1) @ v

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embed(input_ids)
        parts = (t.unflatten(-1, (3, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return x + self.out(self.attend(*parts).transpose(1, 2).flatten(2))


def test_a_compiled_function_inside() -> None:
    model = CompiledFunction()
    with left_as_found(model):
        assert cw.verify(model, TOKENS).exact


@contextmanager
def one_process() -> Generator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def test_parallel() -> None:
    plain = make_tiny("bert")
    model: nn.Module = nn.DataParallel(plain)
    with left_as_found(model):
        assert_alike(model, plain)
    with one_process():
        model = nn.parallel.DistributedDataParallel(plain)
        with left_as_found(model):
            assert_alike(model, plain)


def test_averaged() -> None:
    plain = make_tiny("gpt2")
    averaged = AveragedModel(plain)
    with torch.no_grad():
        plain.wte.weight.add_(1)
        plain.h[0].attn.c_proj.weight.mul_(2)
    averaged.update_parameters(plain)
    plain.load_state_dict(averaged.module.state_dict())
    assert_alike(averaged, plain)


def test_several_wrappers_at_once_are_taken_off_and_named() -> None:
    plain = make_tiny("llama")
    model = torch.compile(nn.DataParallel(AveragedModel(plain)), backend="eager")
    loaded = load(model)
    assert loaded.source == "LlamaModel"
    assert [n.split(" that ")[0] for n in loaded.notes[:3]] == [
        "the DataParallel inside the OptimizedModule",
        "the AveragedModel inside the DataParallel",
        "the LlamaModel inside the AveragedModel",
    ]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_prepared_by_accelerate_with_mixed_precision() -> None:
    accelerate = pytest.importorskip("accelerate")
    plain = make_tiny("llama")
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision="bf16")
    model = accelerator.prepare(copy.deepcopy(plain))
    inputs = tiny_inputs(plain, 6)
    with torch.no_grad():
        # what it puts out in training is not what its weights give in their own dtype
        assert not torch.equal(model(**inputs)[0], plain(**inputs)[0])
    with left_as_found(model):
        assert_alike(model, plain)


def parametrized(how: Callable[[nn.Module], Any], family: str = "llama") -> nn.Module:
    model = make_tiny(family)
    torch.manual_seed(0)
    for layer in model.layers:
        for name in ("v_proj", "o_proj"):
            how(getattr(layer.self_attn, name))
    return model


class LowRankWeight(nn.Module):
    """A low-rank adapter as a parametrization."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(shape[0], 2))
        self.b = nn.Parameter(torch.randn(2, shape[1]))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.a @ self.b


def low_rank(linear: nn.Module) -> None:
    parametrize.register_parametrization(linear, "weight", LowRankWeight(linear.weight.shape))


PARAMETRIZATIONS = [
    parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal,
    low_rank,
]  # fmt: skip


@pytest.mark.parametrize("how", PARAMETRIZATIONS)
def test_weights_that_are_computed(how: Callable[[nn.Module], Any]) -> None:
    model = parametrized(how).train()
    with left_as_found(model):
        found = cw.verify(model, TOKENS)
        cw.analyze(model, TOKENS)
        walk = cw.walk(model, TOKENS, layer=1)
    assert found.exact
    attention = model.eval().layers[1].self_attn
    value, out = attention.v_proj.weight.detach(), attention.o_proj.weight.detach()
    expected = value[:16].t() @ out[:, :16].t()
    assert torch.allclose(walk.transports.matrix(0), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
def test_weights_that_a_hook_computes(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = parametrized(getattr(nn.utils, name)).train()
        with left_as_found(model):
            assert cw.verify(model, TOKENS).exact


def test_hooks_that_change_what_projections_put_out() -> None:
    model, plain = make_tiny("llama"), make_tiny("llama")
    steering = torch.randn(32, generator=torch.Generator().manual_seed(0))
    model.layers[0].self_attn.v_proj.register_forward_hook(lambda m, i, out: out + steering)
    model.layers[1].self_attn.o_proj.register_forward_hook(lambda m, i, out: out * 2)
    with left_as_found(model):
        found = cw.verify(model, TOKENS)
    # what is added to values is in their bias; an output that is not the projection's is refused
    assert [p.site.layer for p in found.layers if p.exact] == [0, 2]
    assert any("layer 1 " in r.name for r in found.refused)
    added = cw.walk(model, TOKENS, layer=0).transports.b_V
    assert torch.allclose(added.flatten(), steering, atol=1e-5)
    assert cw.walk(plain, TOKENS, layer=0).transports.b_V is None


def test_hooks_that_look_see_every_pass_and_the_real_numbers_last() -> None:
    model = make_tiny("llama")
    seen: list[Tensor] = []
    model.layers[2].self_attn.o_proj.register_forward_hook(lambda m, i, out: seen.append(out))
    kept: list[CapturedLayer] = []
    watch(model).stream(tiny_inputs(model, 6), kept.append)
    assert torch.equal(seen[-1][0], kept[-1].output)


def test_layers_that_are_dropped_in_training_are_there() -> None:
    model = make_tiny("bart", encoder_layerdrop=0.9, decoder_layerdrop=0.9).train()
    with left_as_found(model):
        assert cw.verify(model, TOKENS).exact


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "TorchScript": (
        lambda: torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2)),
        "TorchScript",
    ),
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(3)), "have no shape yet"),
    "empty": (lambda: make_tiny("llama").to("meta"), "not loaded"),
    "no model": (lambda: 7, "int is no model"),
    "no module in it": (lambda: {"model": 1}, "dict is no model"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name: str) -> None:
    make, reason = REFUSED[name]
    with pytest.raises(cw.SourceError, match=reason) as refusal:
        cw.analyze(make(), TOKENS)
    assert "\n" not in str(refusal.value)


def test_spread_over_processes_is_refused() -> None:
    from torch.distributed.fsdp import fully_shard

    with one_process():
        mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
        model = fully_shard(make_tiny("llama"), mesh=mesh)
        with pytest.raises(cw.SourceError, match="spread over processes"):
            cw.analyze(model, TOKENS)


def test_what_wraps_nothing_known_is_taken_as_it_is() -> None:
    holder = nn.Sequential(nn.Linear(2, 2))
    found = unwrap(holder)
    assert found is not None
    assert found.module is holder
    assert not found.notes
