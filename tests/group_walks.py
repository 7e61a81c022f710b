"""Walks whose edge transports are chosen one by one from a finite group of rotations.

Each head carries one element of the group, and attends along the edges that should have it.
"""

from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from conwalk.connection import ConnectionWalk

# All permutations of three axes: they do not commute, so the order around a loop is seen.
GROUP = torch.stack([torch.eye(3)[list(order)] for order in permutations(range(3))]).double()


def reversible_kernel(n_tokens: int, seed: int = 0, *, edges: float = 1.0) -> Tensor:
    """Random symmetric weights over their degrees, without self-loops; connected by a ring."""
    generator = np.random.default_rng(seed)
    weights = generator.uniform(0.2, 1.0, (n_tokens, n_tokens))
    weights = weights * (generator.uniform(size=weights.shape) < edges)
    weights = np.triu(weights, 1) + np.diag(np.full(n_tokens - 1, 0.5), 1)
    weights = weights + weights.T
    return torch.from_numpy(weights / weights.sum(1, keepdims=True))


def random_frames(n_tokens: int, seed: int = 0) -> Tensor:
    """An element of the group for each token."""
    return GROUP[torch.from_numpy(np.random.default_rng(seed).integers(0, 6, n_tokens))]


def flat_transports(frames: Tensor) -> Tensor:
    """O_ij = O_jᵀ O_i, receiver by sender: a row vector of j, seen from i."""
    return torch.einsum("jab,iac->ijbc", frames, frames)


def group_walk(kernel: Tensor, transports: Tensor, size: float = 1.0) -> ConnectionWalk:
    """The walk with (𝒲x)_i = size · Σ_j kernel_ij x_j transports_ij."""
    same = (transports[None] == GROUP[:, None, None]).all(-1).all(-1)
    assert bool((same.sum(0) == 1).all())
    return ConnectionWalk(kernel * same, size * GROUP, torch.eye(3).double().expand(6, 3, 3))


def twist(transports: Tensor, i: int, j: int) -> Tensor:
    """Swap two axes along one edge, in both directions."""
    swapped = transports.clone()
    swapped[i, j] = transports[i, j] @ GROUP[1]
    swapped[j, i] = swapped[i, j].mT
    return swapped


def causal(kernel: Tensor) -> Tensor:
    """Keep what earlier tokens send to later ones."""
    return kernel.tril(-1)


def matching_distance(found: Tensor | np.ndarray, wanted: Tensor | np.ndarray) -> float:
    """Largest distance between two multisets of complex numbers, best paired."""
    from scipy.optimize import linear_sum_assignment

    left, right = (np.asarray(values).ravel() for values in (found, wanted))
    assert left.shape == right.shape
    distances = np.abs(left[:, None] - right)
    return float(distances[linear_sum_assignment(distances)].max(initial=0.0))
