"""A model and the process around it are handed back exactly as they were, whatever happens."""

import contextlib
import random
import weakref
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import conwalk as cw
from as_found import left_as_found
from conwalk.capture import CapturedLayer, watch
from conwalk.models import inference
from tiny_models import make_tiny, tiny_inputs

FAMILIES = ["llama", "gpt_neo", "albert"]
TOKENS = [[5, 9, 3, 17, 4, 8]]


def half_trained(family: str, **options: Any) -> nn.Module:
    """A model as somebody has it in the middle of training: modes mixed, parts frozen."""
    model = make_tiny(family, **options).train()
    next(iter(model.children())).eval()
    for n, p in enumerate(model.parameters()):
        p.requires_grad_(n % 3 != 0)
    return model


def look(model: nn.Module) -> None:
    watch(model).stream(tiny_inputs(model, 6), lambda layer: None)


def analyze(model: nn.Module) -> None:
    cw.analyze(model, TOKENS, null_draws=2)


def verify(model: nn.Module) -> None:
    assert cw.verify(model, TOKENS).exact


def walk(model: nn.Module) -> None:
    walk = cw.walk(model, TOKENS, layer=1)
    walk.transport(2, 1)
    walk.H @ (walk @ torch.ones(6, walk.transports.width_in))


JOBS = [look, analyze, verify, walk]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("job", JOBS)
def test_nothing_is_changed(family: str, job: Callable[[nn.Module], None]) -> None:
    model = half_trained(family, attn="sdpa" if family == "llama" else "eager")
    with left_as_found(model):
        job(model)


def test_nothing_is_changed_in_the_middle_of_a_training_step() -> None:
    model = make_tiny("llama", auto="AutoModelForCausalLM").train()
    model.activation_checkpointing_enable()
    loss = model(**tiny_inputs(model, 6)).logits.square().sum()
    with left_as_found(model):
        analyze(model)
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())
    with left_as_found(model):
        verify(model)


@pytest.mark.parametrize("family", FAMILIES)
def test_nor_by_an_exception_in_the_callback(family: str) -> None:
    model = half_trained(family)
    watched = watch(model)

    def fail(layer: CapturedLayer) -> None:
        torch.rand(1)
        raise RuntimeError("callback broke")

    with left_as_found(model), pytest.raises(RuntimeError, match="callback broke"):
        watched.stream(tiny_inputs(model, 6), fail)


def test_nor_by_an_exception_in_the_model() -> None:
    model = half_trained("llama")
    with left_as_found(model), pytest.raises(IndexError):
        watch(model).stream({"input_ids": torch.tensor([[1, 10**6]])}, lambda layer: None)


@pytest.mark.parametrize("pass_number", range(0, 6, 2))
def test_nor_by_an_exception_in_any_of_the_passes(pass_number: int) -> None:
    model = half_trained("llama")
    count = iter(range(10**6))

    def fail(*_: Any) -> None:
        if next(count) == pass_number:
            raise KeyError("hook broke")

    model.layers[1].mlp.register_forward_hook(fail)
    with left_as_found(model), contextlib.suppress(KeyError):
        analyze(model)
    assert next(count) > pass_number


class Recording(nn.Module):
    """Attention that writes down what it did, counts its calls and draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = make_tiny("llama")
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0

    def forward(self, input_ids: Tensor) -> Tensor:
        self.calls += 1
        self.seen = self.seen + 1
        self.last = input_ids
        out = self.inside(input_ids).last_hidden_state
        return out + torch.rand(()) * 1e-3


@pytest.mark.parametrize("job", [analyze, verify])
def test_what_a_model_writes_down_is_as_found(job: Callable[[nn.Module], None]) -> None:
    model = Recording()
    with left_as_found(model):
        job(model)
    assert not hasattr(model, "last")


def test_a_model_that_draws_random_numbers_draws_the_same_in_every_pass() -> None:
    model = Recording()
    assert cw.verify(model, TOKENS).same_output


def test_a_model_in_training_mode_is_watched_in_evaluation_mode() -> None:
    model = make_tiny("gpt2", attn_pdrop=0.5, resid_pdrop=0.5, embd_pdrop=0.5)
    inputs = tiny_inputs(model, 7)
    calm = watch(model).stream(inputs, lambda layer: None)[0]
    model.train()
    assert torch.equal(watch(model).stream(inputs, lambda layer: None)[0], calm)


def test_hooks_of_the_users_own_still_run() -> None:
    model = make_tiny("llama")
    seen: list[int] = []
    model.layers[1].self_attn.v_proj.register_forward_hook(lambda *_: seen.append(1))
    with left_as_found(model):
        look(model)
    assert seen


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Generator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def deterministic() -> Generator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


SURROUNDINGS: dict[str, Callable[[], Any]] = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "double by default": lambda: default_dtype(torch.float64),
    "bfloat16 by default": lambda: default_dtype(torch.bfloat16),
    "deterministic": deterministic,
    "a device context": lambda: torch.device("cpu"),
    "another stance": lambda: torch.compiler.set_stance("eager_on_recompile"),
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_the_surroundings_change_no_number(name: str, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("CONWALK_CACHE", str(tmp_path / "plain"))
    model = make_tiny("llama")
    model(torch.tensor(TOKENS))  # so that nothing the model makes for itself is made inside
    plain = cw.analyze(model, TOKENS)
    monkeypatch.setenv("CONWALK_CACHE", str(tmp_path / "around"))
    with SURROUNDINGS[name](), left_as_found(model):
        around = cw.analyze(model, TOKENS)
        assert cw.verify(model, TOKENS).exact
    for variable in plain.data_vars:
        assert plain[variable].identical(around[variable]), variable


def test_random_numbers_drawn_inside_do_not_count() -> None:
    def draw() -> list[float]:
        return [float(np.random.rand()), float(torch.rand(()))]  # noqa: NPY002

    random.seed(0)
    with inference.settled():
        first = draw()
        random.gauss()
    assert draw() == first
    # a pair of normal numbers is drawn at once, and the second of them kept
    assert random.getstate()[2] is None


def test_compiled_is_eager_only_inside() -> None:
    runs: list[str] = []

    def backend(graph: Any, _inputs: Any) -> Any:
        runs.append("compiled")
        return graph.forward

    twice = torch.compile(lambda t: t * 2, backend=backend)
    with inference.eager(nn.Linear(1, 1)):
        twice(torch.ones(2))
    assert not runs
    twice(torch.ones(2))
    assert runs


def test_a_layer_is_freed_before_the_next_one_comes() -> None:
    model = make_tiny("llama")
    alive: list[weakref.ref[torch.Tensor]] = []

    def hold(layer: CapturedLayer) -> None:
        assert not any(ref() is not None for ref in alive)
        alive.append(weakref.ref(layer.attention))

    watch(model).stream(tiny_inputs(model, 6), hold)
    assert len(alive) == 3
