"""How much attention goes to the first token (the attention sink)."""

from conwalk.metrics.metric import HEAD, LAYER, Arrays, LayerData, Metric, Quantity

SINK_SHARE = 0.3
"""A head whose queries give the first token more than this on average counts as a sink."""


def _rows(data: LayerData) -> Arrays:
    return {"first": data.walk.attention[..., 0]}


def _finish(rows: Arrays) -> Arrays:
    mean = rows["first"].mean(-1)
    return {
        "first_token_attention": mean,
        "sink_fraction": (mean > SINK_SHARE).to(mean.dtype).mean(),
    }


METRIC = Metric(
    name="sink",
    quantities=(
        Quantity(
            "first_token_attention", "mean_i A_i0", HEAD, "1", (0.0, 1.0),
            "attention to the first token, mean over queries",
            "Theory §4", null="uniform attention over the same keys", comparable=False,
        ),
        Quantity(
            "sink_fraction", "mean_h [mean_i A_i0 > 0.3]", LAYER, "1", (0.0, 1.0),
            "share of heads that give the first token more than 0.3 on average",
            "Theory §4", comparable=False,
        ),
    ),
    chance="uniform",
    needs="rows",
    compute=_rows,
    finish=_finish,
)  # fmt: skip
