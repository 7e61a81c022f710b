"""How far a step of the walk goes: the window it keeps to, and its mean length (Theory §1)."""

import torch

from conwalk.metrics.metric import LAYER, Arrays, LayerData, Metric, Quantity


def _rows(data: LayerData) -> Arrays:
    weight = data.matrix.abs()
    n_rows, n_keys = weight.shape
    queries = torch.arange(data.first, data.first + n_rows, device=weight.device)
    keys = torch.arange(n_keys, device=weight.device)
    away = (queries[:, None] - keys).abs_()
    farthest = torch.where(weight > 0, away + 1, 0).amax(-1)
    return {
        "farthest": farthest.to(weight.dtype),
        "length": (weight * away).sum(-1) / weight.sum(-1),
        "keys": weight.new_full((n_rows,), n_keys),
    }


def _finish(rows: Arrays) -> Arrays:
    # positions of two different sequences have no distance
    if len(rows["keys"]) != int(rows["keys"][0]):
        nothing = rows["keys"].new_tensor(torch.nan)
        return {"reach": nothing, "step_length": nothing}
    return {"reach": rows["farthest"].amax(), "step_length": rows["length"].nanmean()}


METRIC = Metric(
    name="reach",
    quantities=(
        Quantity(
            "reach", "max |i − j| + 1, P_ij ≠ 0", LAYER, "tokens", (0.0, None),
            "tokens from a query to the farthest key it has a step to, both counted: the window "
            "that the layer keeps to, or the text where it keeps to none",
            "Theory §1", comparable=False,
        ),
        Quantity(
            "step_length", "mean_i Σ_j P_ij |i − j| / Σ_j P_ij", LAYER, "tokens", (0.0, None),
            "how many tokens a step goes, mean over queries",
            "Theory §1", null="uniform attention over the same keys", comparable=False,
        ),
    ),
    chance="uniform",
    needs="rows",
    compute=_rows,
    finish=_finish,
)  # fmt: skip
