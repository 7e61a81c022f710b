"""A watched model is handed back exactly as it was, also when something went wrong."""

import weakref
from typing import Any

import pytest
import torch
from torch import nn
from transformers.modeling_utils import AttentionInterface

from conwalk.capture import CapturedLayer, watch
from tiny_models import make_tiny, tiny_inputs

FAMILIES = ["llama", "gpt_neo", "albert"]


def fingerprint(model: nn.Module) -> dict[str, Any]:
    """All that a pass could leave behind."""
    return {
        "training": [m.training for m in model.modules()],
        "hooks": [
            (len(m._forward_hooks), len(m._forward_pre_hooks), "forward" in m.__dict__)
            for m in model.modules()
        ],
        "implementation": model.config._attn_implementation,
        "config": model.config.to_json_string(),
        "interface": AttentionInterface.get_interface,
        "modes": torch.overrides._get_current_function_mode(),
        "grad": torch.is_grad_enabled(),
        "weights": [p.clone() for p in model.parameters()],
    }


def assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    weights = zip(before.pop("weights"), after.pop("weights"), strict=True)
    assert all(torch.equal(a, b) for a, b in weights)
    assert before == after


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("attn", ["eager", "sdpa"])
def test_mode_config_hooks_and_weights_are_as_found(family: str, attn: str) -> None:
    model = make_tiny(family, attn=attn if family != "gpt_neo" else "eager").train()
    next(iter(model.children())).eval()
    before = fingerprint(model)
    watch(model).stream(tiny_inputs(model, 6), lambda layer: None)
    assert_same(before, fingerprint(model))


@pytest.mark.parametrize("family", FAMILIES)
def test_also_after_an_exception_in_the_callback(family: str) -> None:
    model = make_tiny(family).train()
    watched = watch(model)
    before = fingerprint(model)

    def fail(layer: CapturedLayer) -> None:
        raise RuntimeError("callback broke")

    with pytest.raises(RuntimeError, match="callback broke"):
        watched.stream(tiny_inputs(model, 6), fail)
    assert_same(before, fingerprint(model))


def test_also_after_an_exception_in_the_model() -> None:
    model = make_tiny("llama")
    before = fingerprint(model)
    with pytest.raises(IndexError):
        watch(model).stream({"input_ids": torch.tensor([[1, 10**6]])}, lambda layer: None)
    assert_same(before, fingerprint(model))


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
    watch(model).stream(tiny_inputs(model, 6), lambda layer: None)
    assert seen


def test_a_layer_is_freed_before_the_next_one_comes() -> None:
    model = make_tiny("llama")
    alive: list[weakref.ref[torch.Tensor]] = []

    def look(layer: CapturedLayer) -> None:
        assert not any(ref() is not None for ref in alive)
        alive.append(weakref.ref(layer.attention))

    watch(model).stream(tiny_inputs(model, 6), look)
    assert len(alive) == 3
