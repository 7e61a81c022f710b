"""Nothing that is printed depends on a choice the model leaves free."""

import numpy as np
import pytest
import torch

from conwalk import metrics, tolerance
from conwalk.capture import watch
from conwalk.models.linear import matrix
from conwalk.models.sites import AttentionSite
from conwalk.pipeline import analyze
from tiny_models import make_tiny

IDS = [[5, 9, 13, 40, 21, 8, 8, 61, 30]]


def regauge(site: AttentionSite, seed: int) -> None:
    """W_V → W_V R and W_O → R⁻¹ W_O in the model's own weights, R random for each value head."""
    generator = torch.Generator().manual_seed(seed)
    k, group = site.value_width, site.n_heads // site.n_kv_heads
    w_v, w_o = matrix(site.value.linear), matrix(site.output.linear)
    with torch.no_grad():
        for g, columns in enumerate(site.value.columns):
            r = torch.eye(k, dtype=w_v.dtype) + 0.3 * torch.randn(
                k, k, generator=generator, dtype=w_v.dtype
            )
            w_v[:, columns] = w_v[:, columns] @ r
            if site.value.linear.bias is not None:
                site.value.linear.bias[columns] = site.value.linear.bias[columns] @ r
            for reads in site.output.reads[g * group : (g + 1) * group]:
                w_o[reads] = torch.linalg.solve(r, w_o[reads])


@pytest.mark.parametrize("family", ["llama", "bert", "gpt2", "falcon"])
def test_a_change_of_gauge_changes_nothing_printed(family: str) -> None:
    model = make_tiny(family, dtype=torch.float64)
    before = analyze(model, IDS, panel=metrics.ALL)
    for i, site in enumerate(watch(model).sites):
        regauge(site, i)
    after = analyze(model, IDS, panel=metrics.ALL)
    assert set(before.data_vars) == set(after.data_vars)
    fresh = make_tiny(family, dtype=torch.float64)
    pairs = zip(model.parameters(), fresh.parameters(), strict=True)
    moved = sum(float((a - b).detach().abs().max()) for a, b in pairs)
    assert moved > 1
    # attention itself passes through a float32 softmax in most families
    limit = tolerance.rounding(torch.float32)
    for name in before.data_vars:
        if name == "residual" or name.endswith("defect"):
            continue
        a, b = before[name].values, after[name].values
        assert np.allclose(a, b, rtol=limit, atol=limit, equal_nan=True), name
