"""Reversibility read from scores: is their antisymmetric part a gradient? (Theory §2)."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import tolerance
from conwalk.operators.fields import working_dtype

# Numbers held at a time, so that they stay in the cache of one core.
_CHUNK = 1 << 18


class ScoreSplit(NamedTuple):
    """How much of each head's scores no potential explains, as shares in [0, 1].

    Attributes:
        curl_share: κ, of the antisymmetric part.
        irreversible_share: ι, of all that the softmax can see.
    """

    curl_share: Float[Tensor, " head"]
    irreversible_share: Float[Tensor, " head"]


def split_scores(scores: Float[Tensor, "head query key"]) -> ScoreSplit:
    """Split the antisymmetric part of scores into a gradient and a curl (Theory §2).

    N = (S − Sᵀ)/2, g_i = mean_j N_ij, C = N − (g_i − g_j). The softmax of S is reversible if and
    only if C = 0: any symmetric scores, any bias by key, and any bias by query leave it 0.

    Args:
        scores: S, scaled, before mask and softmax.

    Returns:
        κ = ‖C‖²/‖N‖² and ι = ‖C‖²/‖S row-centred‖², 0 where C is no more than the rounding of
        S; NaN where queries are not the keys, or where a score is not finite.
    """
    n_heads, n_queries, n_keys = scores.shape
    if n_queries != n_keys:
        missing = torch.full((n_heads,), torch.nan, device=scores.device)
        return ScoreSplit(missing, missing)
    parts = [_split(part) for part in scores.split(max(1, _CHUNK // n_keys**2))]
    return ScoreSplit(*(torch.cat(shares) for shares in zip(*parts, strict=True)))


def _split(scores: Float[Tensor, "head token token"]) -> ScoreSplit:
    """Split the scores of a few heads."""
    S = scores.to(working_dtype(scores.dtype))
    skew = (S - S.mT).div_(2)
    potential = skew.mean(-1)
    skew_size = torch.linalg.vector_norm(skew, dim=(-2, -1))
    curl = skew.sub_(potential[:, :, None]).add_(potential[:, None, :])
    curl_size = torch.linalg.vector_norm(curl, dim=(-2, -1))
    # a norm of differences is several times as fast as a variance along the rows
    seen_size = torch.linalg.vector_norm(S - S.mean(-1, keepdim=True), dim=(-2, -1))
    rounding = tolerance.stored(scores.dtype) * torch.linalg.vector_norm(S, dim=(-2, -1))
    curl_size = torch.where(curl_size <= rounding, torch.zeros_like(curl_size), curl_size)
    return ScoreSplit(_share(curl_size, skew_size), _share(curl_size, seen_size))


def curl_share_chance(n: int) -> float:
    """Give the mean of κ over scores with independent entries of one variance: (n − 2)/n."""
    return max(n - 2, 0) / n


def irreversible_share_chance(n: int) -> float:
    """Give ι for scores with independent entries, dimension by dimension: (n − 2)/(2n)."""
    return curl_share_chance(n) / 2


def _share(part: Tensor, whole: Tensor) -> Tensor:
    """Square part/whole; 0/0 is 0."""
    share = part / torch.where(whole == 0, torch.ones_like(whole), whole)
    return share.square().clamp(max=1.0)
