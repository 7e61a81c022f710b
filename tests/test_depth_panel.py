"""What the pipeline keeps of layers and prompts, and where it puts what comes of it."""

from typing import Any

import numpy as np
import pytest
import torch

from conwalk import dims
from conwalk.connection import ConnectionWalk
from conwalk.metrics import LayerData, Metric, Quantity, lifted_stability
from conwalk.pipeline.collect import Collector
from conwalk.pipeline.depth import DepthPanel


def data(value: float, n: int = 2) -> LayerData:
    """A layer that can be told from others by one number."""
    walk = ConnectionWalk(
        torch.full((1, n, n), 1 / n), torch.full((1, 2, 1), value), torch.ones(1, 1, 2)
    )
    return LayerData(walk, torch.ones(n, 2))


def quantity(name: str, *axes: str) -> Quantity:
    return Quantity(name, name, axes, "1", (None, None), name, "Theory §4")


class Keep:
    """Keeps the number of a layer at each of its tokens, and counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, layer: LayerData) -> dict[str, Any]:
        self.calls += 1
        n = layer.walk.n_queries
        return {"number": torch.full((n,), float(layer.walk.transports.W_V[0, 0, 0]))}


def steps(kept: Any) -> dict[str, torch.Tensor]:
    number = kept["number"][:, 0]
    gap = torch.full_like(number, torch.nan)
    gap[:-1] = number[1:] - number[:-1]
    return {"step": gap, "pair": number[:, None] * number}


def make(stacks: list[str], prompts: int = 1) -> tuple[DepthPanel, Collector, Keep]:
    keep = Keep()
    depth = Metric(
        "steps", (quantity("step"), quantity("pair", dims.LAYER_TO)), "depth", keep, steps
    )
    across = Metric(
        "across",
        (quantity("total"), quantity("count")),
        "prompts",
        keep,
        lambda kept: {
            "total": kept["number"][:, 0].sum(),
            "count": torch.tensor(float(len(kept["number"]))),
        },
    )
    other = Metric("other", (quantity("other"),), "rows", keep)
    panel = DepthPanel([depth, other, across], stacks)
    collector = Collector(prompts, len(stacks), {dims.LAYER_TO: len(stacks)})
    panel.declare(collector)
    return panel, collector, keep


def read(collector: Collector, name: str) -> np.ndarray:
    return collector.variables[name].values


def test_room_is_made_for_depth_by_prompt_and_for_prompts_by_layer() -> None:
    _, collector, _ = make(["self"] * 3, prompts=2)
    assert set(collector.variables) == {"step", "pair", "total", "count"}
    assert collector.variables["step"].dims == (dims.PROMPT, dims.LAYER)
    assert collector.variables["pair"].dims == (dims.PROMPT, dims.LAYER, dims.LAYER_TO)
    assert collector.variables["total"].dims == (dims.LAYER,)
    assert collector.variables["total"].attrs["section"] == "Theory §4"


def test_layers_are_compared_in_order_within_their_stack() -> None:
    panel, collector, _ = make(["encoder", "decoder", "encoder", "decoder", "encoder"])
    # in whatever order they come
    for place, value in ((3, 40.0), (0, 1.0), (4, 7.0), (1, 10.0), (2, 3.0)):
        panel.take(data(value), 0, place)
    panel.finish_prompt(0, collector)
    nan = np.nan
    np.testing.assert_array_equal(read(collector, "step")[0], [2, 30, 4, nan, nan])
    pairs = read(collector, "pair")[0]
    np.testing.assert_array_equal(pairs[0], [1, nan, 3, nan, 7])
    np.testing.assert_array_equal(pairs[3], [nan, 400, nan, 1600, nan])


def test_a_layer_that_was_not_taken_is_a_hole() -> None:
    panel, collector, _ = make(["self"] * 4)
    for place in (0, 1, 3):
        panel.take(data(float(place)), 0, place)
    panel.finish_prompt(0, collector)
    np.testing.assert_array_equal(read(collector, "step")[0], [1, np.nan, np.nan, np.nan])
    assert np.isnan(read(collector, "pair")[0, 2]).all()
    assert np.isnan(read(collector, "pair")[0, :, 2]).all()


def test_layers_of_another_shape_are_holes_to_each_other() -> None:
    panel, collector, _ = make(["self"] * 4)
    for place, n in enumerate((2, 2, 3, 3)):
        panel.take(data(float(place) + 1, n), 0, place)
    panel.finish_prompt(0, collector)
    np.testing.assert_array_equal(read(collector, "step")[0], [1, np.nan, 1, np.nan])
    np.testing.assert_array_equal(read(collector, "pair")[0, 1], [2, 4, np.nan, np.nan])
    np.testing.assert_array_equal(read(collector, "pair")[0, 2], [np.nan, np.nan, 9, 12])


def test_prompts_in_flight_do_not_mix_and_are_let_go() -> None:
    panel, collector, keep = make(["self"] * 2, prompts=3)
    for place in range(2):
        for prompt in range(2):
            panel.take(data(float(10 * prompt + place * (prompt + 1))), prompt, place)
    panel.finish_prompt(1, collector)
    panel.finish_prompt(0, collector)
    np.testing.assert_array_equal(read(collector, "step")[:, 0], [1, 2, np.nan])
    assert keep.calls == 4
    read(collector, "step")[...] = 0
    panel.finish_prompt(0, collector)
    assert (read(collector, "step") == 0).all()


def test_a_prompt_without_any_layer_stays_empty() -> None:
    panel, collector, _ = make(["self"] * 2)
    panel.finish_prompt(0, collector)
    panel.finish(collector)
    assert all(np.isnan(v.values).all() for v in collector.variables.values())


def test_prompts_are_compared_layer_by_layer_among_those_of_one_length() -> None:
    panel, collector, _ = make(["self"] * 3, prompts=4)
    for prompt, n in enumerate((2, 3, 3, 5)):
        for place in range(2):
            panel.take(data(float(10**prompt + place), n), prompt, place)
        panel.finish_prompt(prompt, collector)
    panel.finish(collector)
    np.testing.assert_array_equal(read(collector, "total"), [110, 112, np.nan])
    np.testing.assert_array_equal(read(collector, "count"), [2, 2, np.nan])


@pytest.mark.parametrize("lengths", [(5, 3), (3, 5)])
def test_of_lengths_equally_frequent_the_longer_is_taken(lengths: tuple[int, int]) -> None:
    panel, collector, _ = make(["self"], prompts=2)
    for prompt, n in enumerate(lengths):
        panel.take(data(float(n), n), prompt, 0)
    panel.finish(collector)
    assert read(collector, "total")[0] == 5


def test_whole_numbers_have_holes_too() -> None:
    seen: list[torch.Tensor] = []

    def keep(layer: LayerData) -> dict[str, torch.Tensor]:
        return {"tokens": torch.tensor(layer.walk.n_queries)}

    def finish(kept: Any) -> dict[str, torch.Tensor]:
        seen.append(kept["tokens"])
        return {"tokens": kept["tokens"]}

    panel = DepthPanel([Metric("n", (quantity("tokens"),), "depth", keep, finish)], ["self"] * 3)
    collector = Collector(1, 3, {})
    panel.declare(collector)
    for place in (0, 2):
        panel.take(data(1.0, 4), 0, place)
    panel.finish_prompt(0, collector)
    np.testing.assert_array_equal(seen[0], [4, np.nan, 4])
    np.testing.assert_array_equal(read(collector, "tokens")[0], [4, np.nan, 4])


def test_walks_are_kept_by_reference_and_listed_with_their_holes() -> None:
    collector = Collector(1, 3, {dims.LAYER_TO: 3})
    panel = DepthPanel(lifted_stability.METRICS, ["self"] * 3)
    panel.declare(collector)
    panel.take(data(1.0), 0, 0)
    panel.take(data(-1.0), 0, 1)
    panel.finish_prompt(0, collector)
    np.testing.assert_allclose(read(collector, "depth_lifted")[0], [2, np.nan, np.nan])
    matrix = read(collector, "depth_lifted_matrix")[0]
    np.testing.assert_allclose(matrix[:2, :2], [[0, 2], [2, 0]])
    assert np.isnan(matrix[2]).all()
