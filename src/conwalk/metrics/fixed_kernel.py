"""Whether the effective graph is the same for every input: the fixed-kernel R² (Theory §4)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import tolerance
from conwalk.connection.graphs import uniform_graph
from conwalk.metrics.depth_graphs import VARIANTS, keep_graphs, read_graphs
from conwalk.metrics.metric import LAYER, Arrays, Metric, Quantity


def fixed_kernel_r2(graphs: Float[Tensor, "prompt query key"]) -> Float[Tensor, ""]:
    """Compute 1 − variance across inputs / energy around the uniform kernel (Theory §4).

    The variance is the unbiased one, so that unrelated deviations from the uniform kernel give
    0 on average whatever the number of prompts.

    Args:
        graphs: the graph of one layer for prompts of equal length.

    Returns:
        At most 1, the same graph for every prompt; at least −1/(prompts − 1); NaN for a single
        prompt, and where all graphs are uniform.
    """
    count = len(graphs)
    mean = graphs.mean(0)
    variance = (graphs - mean).square().sum() / max(count - 1, 1)
    uniform = uniform_graph(mean)
    energy = (graphs - uniform).square().sum() / count
    noise = tolerance.rounding(graphs.dtype) ** 2 * uniform.square().sum()
    if count == 1:
        return torch.full_like(energy, torch.nan)
    return 1 - variance / torch.where(energy > noise, energy, torch.nan)


def _finish(kept: Arrays) -> Arrays:
    nothing = {
        f"fixed_kernel_r2{suffix}": kept["mean"].new_tensor(torch.nan) for suffix in VARIANTS
    }
    return nothing | {
        f"fixed_kernel_r2{suffix}": fixed_kernel_r2(column.graphs)
        for suffix, column in read_graphs(kept).items()
    }


METRIC = Metric(
    name="fixed_kernel",
    quantities=tuple(
        Quantity(
            f"fixed_kernel_r2{suffix}", "1 − Var(P) / E‖P − U‖²", LAYER, "1", (-1.0, 1.0),
            "share of the graph's distance from even attention that is the same for all prompts "
            f"of equal length: {graph}",
            "Theory §4", null="0 for prompts whose deviations have nothing in common",
        )
        for suffix, graph in VARIANTS.items()
    ),
    needs="prompts",
    compute=keep_graphs,
    finish=_finish,
    default=False,
)  # fmt: skip
