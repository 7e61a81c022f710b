"""What the geometry panel says of the two real models, against what must hold."""

import time

import numpy as np
import pytest
import torch

from conwalk import texts
from conwalk.capture import CapturedLayer, watch
from conwalk.connection import edge_effective_ranks
from conwalk.connection.edge_spectra import edge_singular_values
from conwalk.metrics import ALL, Metric
from conwalk.models import Model
from conwalk.pipeline import analyze
from conwalk.results import refused

TEXT = texts.load(texts.DEFAULT[0])
SAMPLED = 8


def chosen(*names: str) -> list[Metric]:
    return [m for m in ALL if m.name in names]


def prose_ids(model: Model, n: int) -> list[int]:
    ids = model.require_tokenizer()("\n".join(texts.load(t) for t in texts.names()), verbose=False)
    return (list(ids["input_ids"]) * 4)[:n]


@pytest.mark.parametrize("name", ["minilm", "smollm"])
def test_the_ledger_closes(name: str, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(name)
    found = analyze(model, TEXT, max_length=48, panel=chosen("ledger"))
    assert float(found.energy_residual.max()) <= 1e-4
    parts = found.energy_dirichlet + found.energy_stationarity + found.energy_compatibility
    assert np.allclose(parts + found.energy_leak, found.energy_total, rtol=1e-3, atol=1e-4)


def test_folded_and_unfolded_isometry_scores(smollm: Model) -> None:
    found = analyze(smollm, TEXT, max_length=8, panel=chosen("isometry", "isometry_folded"))
    assert float(found.rho.median()) == pytest.approx(0.947, abs=1e-3)
    assert float(found.rho_folded.median()) == pytest.approx(0.943, abs=1e-3)
    assert float(found.rho_folded_null_mean.mean()) == pytest.approx(0.972, abs=1e-3)


def test_edge_ranks_of_all_layers_are_those_of_an_svd_and_much_cheaper(smollm: Model) -> None:
    """In float64, 128 tokens, every layer: closed form for every edge, SVD for a few."""
    ids = prose_ids(smollm, 128)
    closed: list[float] = []
    single: list[float] = []

    def check(layer: CapturedLayer) -> None:
        walk = layer.walk.to(dtype=torch.float64)
        edge_effective_ranks(walk)
        start = time.perf_counter()
        ranks = edge_effective_ranks(walk)
        present = ranks.isfinite()
        closed.append((time.perf_counter() - start) / int(present.sum()))
        generator = torch.Generator().manual_seed(layer.site.layer)
        edges = present.nonzero()
        edges = edges[torch.randint(len(edges), (SAMPLED,), generator=generator)]
        for i, j in edges.tolist():
            start = time.perf_counter()
            sigma = torch.linalg.svdvals(walk.transport(i, j))
            single.append(time.perf_counter() - start)
            square = sigma.square()
            expected = float(square.sum().square() / square.square().sum())
            assert float(ranks[i, j]) == pytest.approx(expected, rel=1e-6)
        factored = edge_singular_values(walk, edges[:, 0], edges[:, 1]).square()
        again = factored.sum(-1).square() / factored.square().sum(-1)
        assert torch.allclose(again, ranks[edges[:, 0], edges[:, 1]], rtol=1e-6)

    watch(smollm.module).stream({"input_ids": torch.tensor([ids])}, check)
    assert len(closed) == 30
    assert np.median(single) / np.median(closed) >= 1000


# numbers that stand relative to their null at their own length by definition
RELATIVE = {
    "entropy_share",
    *(f"depth_tv_relative{v}" for v in ("", "_no_sink", "_value")),
    *(f"depth_tv_z{v}" for v in ("", "_no_sink", "_value")),
}
# the null of a number, and what both are shares of
NULLS = {"edge_rank": ("edge_rank_chance", 1.0), "edge_rank_share": ("edge_rank_chance", 192.0)}


def test_numbers_compared_across_lengths_move_less_than_their_null(smollm: Model) -> None:
    """Every quantity of the default panel that says it can be compared across n."""
    panel = [m for m in ALL if m.default and not m.of_weights]
    ids = prose_ids(smollm, 256)
    short, middle, long = (analyze(smollm, [ids[:n]], panel=panel) for n in (16, 64, 256))

    def move(name: str) -> float:
        steps = [abs(a[name] - b[name]) for a, b in ((short, middle), (middle, long))]
        return float(sum(step.median() for step in steps))

    compared = [q for m in panel for q in m.quantities if q.comparable]
    assert {"edge_rank", "entropy_share", "depth_tv_relative"} <= {q.name for q in compared}
    for quantity in compared:
        name = quantity.name
        if name in RELATIVE or name.endswith("_chance") or long[name].isnull().all():
            continue
        null, size = NULLS.get(name, ("", 1.0))
        # without a null of its own a number may move by what the softmax rounds
        allowed = move(null) / size if null else 1e-6
        assert move(name) <= allowed, name


def test_the_default_panel_costs_no_whole_matrices_on_long_texts(smollm: Model) -> None:
    ids = prose_ids(smollm, 640)
    found = analyze(smollm, [ids])
    assert float(found.residual.max()) <= 5e-6
    assert not found.edge_rank.isnull().any()
    assert not found.stationarity_defect.isnull().any()
    assert found.curl_share.isnull().all()
    assert any("--whole" in entry["reason"] for entry in refused(found))
