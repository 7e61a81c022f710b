"""One exact operator out of a running model, and the public face it is reached by."""

import subprocess
import sys

import pytest
import torch

import conwalk as cw
from conwalk.errors import ExactnessError, SelectionError, SourceError
from tiny_models import make_tiny

IDS = [[5, 9, 13, 40, 21, 8]]


def test_the_walk_of_a_layer_gives_the_layers_output() -> None:
    model = make_tiny("bert")
    caught = cw.capture_layer(model, IDS, 1)
    assert caught.site.layer == 1
    walk = cw.walk(model, IDS, 1)
    rebuilt = walk(caught.value_input)
    assert torch.allclose(rebuilt, caught.output, rtol=1e-4, atol=1e-5)
    assert walk.domain == (6, 64)


def test_a_stack_is_asked_for_where_there_are_several() -> None:
    model = make_tiny("bart")
    inputs = {"input_ids": torch.tensor(IDS), "decoder_input_ids": torch.tensor([[2, 5, 9]])}
    with pytest.raises(SelectionError, match=r"choose a stack of cross, decoder, encoder"):
        cw.walk(model, inputs, 0)
    assert cw.walk(model, inputs, 0, stack="cross").attention.shape == (4, 3, 6)


def test_a_layer_that_does_not_match_is_refused() -> None:
    model = make_tiny("llama")
    model.layers[2].self_attn.o_proj.register_forward_hook(
        lambda module, args, output: output * 1.01 if output.shape[1] > 4 else None
    )
    with pytest.raises(ExactnessError, match=r"layer 2 .*its walk is not the layer"):
        cw.walk(model, IDS, 2)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_numbers_are_refused_by_layer_and_tensor(value: float) -> None:
    model = make_tiny("llama")
    with torch.no_grad():
        model.layers[1].self_attn.v_proj.weight[3, 2] = value
    with pytest.raises(SourceError, match=r"layers\.1\.self_attn\.v_proj\.weight"):
        cw.analyze(model, IDS)


def test_every_public_name_stays_what_it_is_once_all_is_imported() -> None:
    script = (
        "import conwalk as cw, types, conwalk.pipeline, conwalk.capture, conwalk.models;"
        "modules = [n for n in cw.__all__ if isinstance(getattr(cw, n), types.ModuleType)];"
        "assert modules == ['plot'], modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
