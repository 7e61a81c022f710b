"""What the steps from layer to layer would be if the layers came in random order (Theory §4)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Moments = tuple[Float[Tensor, ""], Float[Tensor, ""]]
"""Mean and standard deviation."""


def step_moments(distances: Float[Tensor, "layer layer"]) -> Moments:
    """Give mean and standard deviation of one step, over all orders of the layers.

    Args:
        distances: symmetric, 0 on the diagonal.

    Returns:
        Those of the distance between two different layers drawn at random; NaN for one layer.
    """
    pairs = distances[torch.ones_like(distances).triu(1) > 0].double()
    if not len(pairs):
        return pairs.new_tensor(torch.nan), pairs.new_tensor(torch.nan)
    return pairs.mean(), pairs.std(correction=0)


def path_moments(distances: Float[Tensor, "layer layer"], steps: Bool[Tensor, " step"]) -> Moments:
    """Give mean and standard deviation of the mean step, over all orders of the layers, exactly.

    Two steps of a path are of two kinds, those that share a layer and those that do not; their
    mean products over all orders are sums over the matrix, so nothing is drawn.

    Args:
        distances: symmetric, 0 on the diagonal; between the layers that are there.
        steps: which of the steps along the depth are there, in order.

    Returns:
        Moments of the mean over these steps; NaN where there is none.
    """
    d = distances.double()
    n, count = len(d), int(steps.sum())
    if not count:
        return d.new_tensor(torch.nan), d.new_tensor(torch.nan)
    total, squares = d.sum(), d.square().sum()
    touching = d.sum(1).square().sum() - squares
    apart = total.square() - 2 * squares - 4 * touching
    corners = 2 * int((steps[1:] & steps[:-1]).sum())
    second = (
        count * squares / _draws(n, 2)
        + corners * touching / _draws(n, 3)
        + (count * (count - 1) - corners) * apart / _draws(n, 4)
    )
    mean = total / _draws(n, 2)
    variance = (second / count**2 - mean.square()).clamp(min=0)
    return mean, variance.sqrt()


def _draws(n: int, size: int) -> int:
    """Count the ordered draws of ``size`` different layers; 1 where there is none to divide by."""
    product = 1
    for taken in range(size):
        product *= n - taken
    return max(product, 1)
