"""What labels say where they arrive."""

from collections.abc import Sequence

import torch
from torch import Tensor

from conwalk.models.observations import LinearCall, pattern_labels
from conwalk.tolerance import label as label_error

SMALL = 2.0**-14
"""Scale of the labels that a gate does not saturate on."""
PATTERNS = 3
"""How many patterns attention calls put out, one pass each, where something bends labels."""


def are_integers(labels: Tensor) -> bool:
    """Whether labels came out as whole numbers, up to rounding."""
    return bool(((labels.round() - labels).abs() <= label_error(labels)).all())


def came_straight(full: Tensor, small: Tensor) -> bool:
    """Whether labels came through in proportion: nothing but linear maps on their way."""
    return bool((small / SMALL - full).abs().max() <= label_error(full).max())


def located(labels: Tensor, calls: Sequence[LinearCall]) -> tuple[LinearCall, Tensor] | None:
    """The one use of a linear that labels are all from, and which of its channels they are."""
    if not are_integers(labels):
        return None
    channels = labels.round().long()
    for call in calls:
        inside = channels - call.base
        if inside.min() >= 0 and inside.max() < len(call.labels):
            return call, inside
    return None


def once_each(columns: Tensor, n_heads: int) -> Tensor:
    """Value heads that the model repeated for its query heads, once each."""
    n_values = columns.shape[0]
    for group in range(n_values, 1, -1):
        if n_values % group == 0 and n_heads % (n_values // group) == 0:
            blocks = columns.reshape(n_values // group, group, -1)
            if bool((blocks == blocks[:, :1]).all()):
                return blocks[:, 0]
    return columns


def for_each_query_head(columns: Tensor, n_heads: int) -> Tensor:
    """Value heads once for each query head."""
    return columns.repeat_interleave(n_heads // columns.shape[0], 0)


def tokens_first(places: tuple[int, ...]) -> bool:
    """Whether a single prompt's axis comes after that of its tokens."""
    return len(places) == 2 and places[0] > 1 == places[1]


def patterns_put_out(index: int, shape: tuple[int, int]) -> Tensor:
    """What an attention call puts out in the passes with patterns, ``(pattern, head, k)``."""
    return torch.stack([pattern_labels(n + 1, index + 1, *shape) for n in range(PATTERNS)])
