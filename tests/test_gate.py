"""The gate: a layout that is wrong in any way is caught by rebuilding the layer."""

from dataclasses import replace

import pytest
import torch

from broken_sites import BREAKS, Break, variants
from conwalk.capture import watch
from conwalk.models.layout import Layout, discover
from conwalk.pipeline import analyze, verify
from conwalk.results import refused
from tiny_models import make_tiny, tiny_inputs

FAMILIES = ["llama", "bert", "gpt2", "bloom", "t5", "falcon-new"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("broken", BREAKS, ids=lambda b: b.__name__)
def test_a_broken_layout_is_refused(
    family: str, broken: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = watch(make_tiny(family)).sites
    if not all(broken.__name__ in variants(s) for s in sites):
        pytest.skip("it changes nothing here")

    def mistaken(*args: object) -> Layout:
        layout = discover(*args)  # type: ignore[arg-type]
        return replace(layout, sites=tuple(broken(s) for s in layout.sites))

    monkeypatch.setattr("conwalk.capture.watching.discover", mistaken)
    watched = watch(make_tiny(family))
    assert not watched.sites
    assert len(watched.refused) == 3
    assert "rebuilt with residual" in watched.refused[0].reason


def test_variants_that_change_nothing_are_left_out() -> None:
    names = {f: set(variants(watch(make_tiny(f)).sites[0])) for f in ("llama", "bert", "falcon")}
    everything = {b.__name__ for b in BREAKS}
    assert names["bert"] == everything
    assert names["llama"] == everything - {"dropped_bias"}
    assert names["falcon"] == everything - {"dropped_bias", "swapped_value_heads", "wrong_grouping"}


def test_a_layer_that_stops_matching_is_refused_by_name_and_not_measured() -> None:
    model = make_tiny("llama")
    ids = tiny_inputs(model, 8)["input_ids"]

    def meddle(module: torch.nn.Module, args: object, output: torch.Tensor) -> torch.Tensor | None:
        # an output that is not what the weights make of the input, on longer texts only
        return output * 1.01 if output.shape[1] > 5 else None

    model.layers[1].self_attn.o_proj.register_forward_hook(meddle)
    found = analyze(model, {"input_ids": ids})
    (entry,) = refused(found)
    assert entry["name"] == "prompt 0, layer 1 (layers.1.self_attn)"
    assert entry["reason"].startswith("rebuilt with residual 1.")
    assert found.entropy.sel(layer=1).isnull().all()
    assert not found.entropy.sel(layer=[0, 2]).isnull().any()
    proof = verify(model, {"input_ids": ids})
    assert not proof.exact
    assert [p.verdict for p in proof.layers] == ["exact", "NOT REBUILT", "exact"]


def test_each_head_alone_is_compared_with_the_module() -> None:
    from conwalk.capture import CapturedLayer
    from conwalk.pipeline.verification import head_residuals

    model = make_tiny("gpt2")
    caught: list[CapturedLayer] = []
    watch(model).stream(tiny_inputs(model, 6), caught.append)
    layer = caught[0]
    assert max(head_residuals(layer)) < 1e-6
    mixed_up = replace(layer, read=layer.read.flip(0))
    assert min(head_residuals(mixed_up)) > 0.1
