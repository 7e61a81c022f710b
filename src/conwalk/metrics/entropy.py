"""How spread out attention is."""

import torch

from conwalk.metrics.metric import HEAD, Arrays, LayerData, Metric, Quantity


def _rows(data: LayerData) -> Arrays:
    attention = data.walk.attention
    keys = (data.matrix != 0).sum(-1).to(attention.dtype)
    # the limit of a log a is 0 at 0; xlogy would have it too, but at a tenth of the speed of log
    tiny = torch.finfo(attention.dtype).tiny
    entropy = -(attention.clamp(min=tiny).log_().mul_(attention)).sum(-1)
    return {
        # a negative weight has no entropy
        "entropy": torch.where(attention.amin(-1) < 0, torch.nan, entropy),
        "most": keys.clamp(min=1).log().expand(attention.shape[0], -1),
    }


def _finish(rows: Arrays) -> Arrays:
    entropy, most = rows["entropy"].sum(-1), rows["most"].sum(-1)
    share = torch.where(most > 0, entropy / most, torch.ones_like(most))
    return {
        "entropy": rows["entropy"].mean(-1),
        "entropy_uniform": rows["most"].mean(-1),
        "entropy_share": share.clamp(max=1.0),
    }


METRIC = Metric(
    name="entropy",
    quantities=(
        Quantity(
            "entropy", "−Σ_j A_ij log A_ij", HEAD, "nat", (0.0, None),
            "entropy of a query's attention, mean over queries",
            "Theory §4", null="entropy_uniform", comparable=False,
        ),
        Quantity(
            "entropy_uniform", "log m_i", HEAD, "nat", (0.0, None),
            "the same for attention spread evenly over the keys a query can reach",
            "Theory §4", comparable=False,
        ),
        Quantity(
            "entropy_share", "Σ_i H_i / Σ_i log m_i", HEAD, "1", (0.0, 1.0),
            "entropy as a share of what even attention would have; 1 where a query has one key",
            "Theory §4", null="1 for even attention", comparable=True,
        ),
    ),
    needs="rows",
    compute=_rows,
    finish=_finish,
)  # fmt: skip
