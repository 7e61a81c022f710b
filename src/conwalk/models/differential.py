"""Differential attention: one output of two attention calls, one half of heads minus the other.

Both calls use the same weights on values of half the width. The heads of the first half, minus a
multiple of those of the second, and normalised, are what the output projection reads: a walk
with signed weights (Theory §7).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor


def ratio(
    arrived: Sequence[Float[Tensor, " channel"]],
    first: Float[Tensor, "pattern head k"],
    second: Float[Tensor, "pattern head k"],
    limit: float,
) -> float | None:
    """The multiple of the second half of heads that is added to the first.

    Args:
        arrived: what the output projection read, one a pattern; head after head, the coordinates
            of the first call before those of the second.
        first: what the first call put out.
        second: what the second call put out.
        limit: largest relative error.

    Returns:
        The multiple, usually negative; None if what arrived is not such a combination times one
        factor for each head.
    """
    half = first.shape[1] // 2
    if first.shape[1] % 2:
        return None
    read = torch.stack(list(arrived)).reshape(len(arrived), half, -1)
    plus = torch.cat([first[:, :half], second[:, :half]], -1)
    minus = torch.cat([first[:, half:], second[:, half:]], -1)
    basis = torch.stack([plus, minus], -1)
    found = torch.linalg.lstsq(basis, read.unsqueeze(-1)).solution
    error = (basis @ found).squeeze(-1) - read
    multiples = found[..., 1, 0] / found[..., 0, 0]
    middle = multiples.median()
    alike = (multiples - middle).abs().max() <= limit * middle.abs()
    exact = error.abs().max() <= limit * read.abs().max()
    return float(multiples.mean()) if bool(alike & exact) else None


def joined_halves(
    first: Int[Tensor, "head k"], second: Int[Tensor, "head k"]
) -> Int[Tensor, "half k2"] | None:
    """Channels of the values of both calls, for the heads that are left; None if halves differ."""
    both = torch.cat([first, second], -1)
    half = len(both) // 2
    same = len(both) % 2 == 0 and torch.equal(both[:half], both[half:])
    return both[:half] if same else None
