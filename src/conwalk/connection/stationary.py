"""The stationary law of a walk matrix, and what stands between it and detailed balance."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from conwalk import tolerance

# Rows at a time where a whole matrix in double precision would be much.
_ROWS = 512
# Attention mixes in a few steps or hardly at all; then the equations are solved instead.
_STEPS = 64


def is_stochastic(walk: Float[Tensor, "query key"]) -> bool:
    """Say whether a walk matrix is a chain: square, nonnegative, rows that sum to 1 (Theory §2 a).

    Args:
        walk: P.

    Returns:
        Whether it is, up to the rounding of a softmax.
    """
    if walk.shape[0] != walk.shape[1] or bool((walk < 0).any()):
        return False
    limit = tolerance.row_sum(walk.dtype)
    return all(
        bool(((rows.sum(-1, dtype=torch.float64) - 1).abs() <= limit).all())
        for rows in walk.split(_ROWS)
    )


def recurrent(walk: Float[Tensor, "state state"]) -> Bool[Tensor, " state"]:
    """Mark the states of the only closed communicating class of a chain.

    Args:
        walk: P, stochastic.

    Returns:
        Whether a state is in it; nowhere true where there are several closed classes.
    """
    n = len(walk)
    if bool((walk > 0).all()):
        return torch.ones(n, dtype=torch.bool, device=walk.device)
    present = walk != 0
    if not bool(present.triu(1).any()):
        # every state is a class of its own, and closed where no edge leaves it
        closed = ~present.tril(-1).any(-1)
        return closed if int(closed.sum()) == 1 else torch.zeros_like(closed)
    edges = present.numpy(force=True)
    _, label = connected_components(csr_array(edges), directed=True, connection="strong")
    sender, receiver = edges.nonzero()
    leaving = label[sender] != label[receiver]
    closed = np.setdiff1d(label, label[sender[leaving]])
    members = np.isin(label, closed) if len(closed) == 1 else np.zeros(n, dtype=bool)
    return torch.from_numpy(members).to(walk.device)


def stationary_law(walk: Float[Tensor, "query key"]) -> Float[Tensor, " key"]:
    """Find the law that a walk leaves as it is: π = πP.

    Args:
        walk: P.

    Returns:
        π in float64, 0 on transient states; NaN where it is not unique or P is not stochastic.
    """
    law = torch.full((walk.shape[1],), torch.nan, dtype=torch.float64, device=walk.device)
    if not is_stochastic(walk):
        return law
    members = recurrent(walk)
    if not bool(members.any()):
        return law
    inner = walk[members][:, members].double()
    law.zero_()
    law[members] = _of_irreducible(inner / inner.sum(-1, keepdim=True))
    return law


def _of_irreducible(walk: Float[Tensor, "state state"]) -> Float[Tensor, " state"]:
    """Iterate from the uniform law; solve the equations where that does not settle."""
    law = walk.new_full((len(walk),), 1 / len(walk))
    for _ in range(_STEPS):
        moved = law @ walk
        if float((moved - law).abs().sum()) <= tolerance.rounding(walk.dtype):
            return moved
        law = moved
    return _solve(walk)


def _solve(walk: Float[Tensor, "state state"]) -> Float[Tensor, " state"]:
    """Solve π(I − P) = 0 with Σπ = 1; adding 1 everywhere makes the matrix regular."""
    regular = torch.eye(len(walk)).to(walk) - walk + 1
    law = torch.linalg.solve(regular.mT, torch.ones_like(walk[0])).clamp(min=0)
    return law / law.sum()


def flow_asymmetry(walk: Float[Tensor, "query key"]) -> float:
    """Measure how far a walk is from detailed balance on its recurrent class (Theory §2 b).

    Args:
        walk: P.

    Returns:
        ‖F − Fᵀ‖₁ / 2‖F‖₁ off the diagonal, F = diag(π)P, in [0, 1]; NaN where there is no unique
        π, or only one state holds all of it.
    """
    law = stationary_law(walk)
    if int((law > 0).sum()) < 2:
        return torch.nan
    flow = law[:, None] * walk.double()
    flow.fill_diagonal_(0)
    return float((flow - flow.mT).abs().sum() / (2 * flow.sum()))


def stationarity_defect(walk: Float[Tensor, "query key"]) -> float:
    """Measure how far one step moves the uniform law (Theory §2).

    Args:
        walk: P.

    Returns:
        TV(μP, μ) in [0, 1] for μ uniform; NaN where P is not square or has negative weights.
    """
    if walk.shape[0] != walk.shape[1] or bool((walk < 0).any()):
        return torch.nan
    received = torch.zeros(len(walk), dtype=torch.float64, device=walk.device)
    for rows in walk.split(_ROWS):
        received += rows.sum(0, dtype=torch.float64)
    return float((received / len(walk) - 1 / len(walk)).abs().sum() / 2)


def even_stationarity_defect(walk: Float[Tensor, "query key"]) -> float:
    """Compute the stationarity defect of even attention over the keys each query can reach.

    Args:
        walk: P; where it is not 0 is all that is read.

    Returns:
        TV(μU, μ) in [0, 1] for μ uniform; NaN where P is not square. Theory §2.
    """
    if walk.shape[0] != walk.shape[1]:
        return torch.nan
    received = torch.zeros(len(walk), dtype=torch.float64, device=walk.device)
    for rows in walk.split(_ROWS):
        present = (rows != 0).double()
        received += (1 / present.sum(-1).clamp(min=1)) @ present
    return float((received / len(walk) - 1 / len(walk)).abs().sum() / 2)


def first_is_absorbing(walk: Float[Tensor, "query key"]) -> bool:
    """Say whether a walk that reaches token 0 stays there.

    Args:
        walk: P.

    Returns:
        Whether all of row 0 is on token 0, up to the rounding of a softmax.
    """
    elsewhere, kept = walk[0, 1:], float(walk[0, 0])
    return not bool(elsewhere.any()) and abs(kept - 1) <= tolerance.row_sum(walk.dtype)
