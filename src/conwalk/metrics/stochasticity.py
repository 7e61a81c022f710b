"""Is the walk a random walk: do rows sum to 1, is every weight nonnegative? (Theory §2 a, §7)."""

from conwalk.metrics.metric import LAYER, Arrays, LayerData, Metric, Quantity


def _rows(data: LayerData) -> Arrays:
    attention = data.walk.attention
    defect = attention.sum(-1) - 1
    return {
        "defect": defect.abs().amax(0),
        "leak": -defect.clamp(max=0).amin(0),
        "least": attention.amin((0, 2)),
    }


def _finish(rows: Arrays) -> Arrays:
    return {
        "row_sum_defect": rows["defect"].max(),
        "leak": rows["leak"].max(),
        "least_weight": rows["least"].min(),
    }


METRIC = Metric(
    name="stochasticity",
    quantities=(
        Quantity(
            "row_sum_defect", "max|Σ_j A_ij − 1|", LAYER, "1", (0.0, None),
            "largest distance of a row's sum from 1, over heads and queries",
            "Theory §2 (a)", better="lower", null="0 up to the rounding of the softmax",
        ),
        Quantity(
            "leak", "max(1 − Σ_j A_ij)", LAYER, "1", (0.0, 1.0),
            "largest share of a row that goes to no token, over heads and queries",
            "Theory §7", better="lower", null="0 up to the rounding of the softmax",
        ),
        Quantity(
            "least_weight", "min A_ij", LAYER, "1", (None, 1.0),
            "smallest attention weight; below 0 the walk is signed",
            "Theory §2 (a)", comparable=False,
        ),
    ),
    needs="rows",
    compute=_rows,
    finish=_finish,
)  # fmt: skip
