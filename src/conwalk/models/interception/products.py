"""The three ways a softmax meets its values: a matrix product, an einsum, and fused attention.

Each is brought to ``attention (batch, head, query, key)`` and ``value (batch, head, key, k)``,
and its result taken to ``(batch, query, head, k)`` and back to the shape the model expects.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Product:
    """A product of attention and values in normal form.

    Attributes:
        attention: ``(batch, head, query, key)``.
        value: ``(batch, value head, key, k)``.
        mixed: from the model's own shape to ``(batch, query, head, k)``.
        native: from ``(batch, query, head, k)`` to the model's own shape.
    """

    attention: Tensor
    value: Tensor
    mixed: Callable[[Tensor], Tensor]
    native: Callable[[Tensor], Tensor]


_FLAT_AXES = 3


def _lead(t: Tensor, batch: int) -> Tensor:
    """Every axis between the first and the matrix axes becomes the head axis.

    Where heads lie flattened with the batch, they are split by it.
    """
    return t.reshape(batch if t.dim() == _FLAT_AXES else t.shape[0], -1, *t.shape[-2:])


def matrix_product(attention: Tensor, value: Tensor, batch: int) -> Product:
    """``attention @ value`` with any number of leading axes, the first of which holds the batch.

    Args:
        attention: ``(..., query, key)``.
        value: ``(..., key, k)``.
        batch: batch size, where it lies flattened with the heads in one axis.
    """
    heads = _lead(attention, batch)
    values = _lead(value, batch)
    lead = attention.shape[:-2]

    def mixed(out: Tensor) -> Tensor:
        return _lead(out, batch).transpose(1, 2)

    def native(out: Tensor) -> Tensor:
        return out.transpose(1, 2).reshape(*lead, out.shape[1], out.shape[-1])

    return Product(heads, values, mixed, native)


def turned_product(value: Tensor, attention: Tensor, batch: int) -> Product:
    """``value @ attention``, both on their side: ``(..., k, key)`` and ``(..., key, query)``."""
    upright = matrix_product(attention.transpose(-1, -2), value.transpose(-1, -2), batch)
    return Product(
        upright.attention,
        upright.value,
        lambda out: upright.mixed(out.transpose(-1, -2)),
        lambda out: upright.native(out).transpose(-1, -2),
    )


def einsum_product(equation: str, attention: Tensor, value: Tensor) -> Product | None:
    """The einsum of an attention tensor and a value tensor, or None if it is something else."""
    inputs, _, output = equation.replace(" ", "").partition("->")
    left, _, right = inputs.partition(",")
    if not output or not right:
        return None
    if "." in equation:
        # an ellipsis that stands for one axis is a letter like any other
        axes = (attention.dim() - len(left.replace("...", "")), value.dim() - len(right) + 3)
        if not all("..." in t for t in (left, right, output)) or axes != (1, 1):
            return None
        left, right, output = (t.replace("...", "Z") for t in (left, right, output))
    key = [c for c in left if c in right and c not in output]
    query = [c for c in left if c in output and c not in right]
    width = [c for c in right if c in output and c not in left]
    shared = [c for c in left if c in right and c in output]
    if (len(key), len(query), len(width)) != (1, 1, 1) or len(shared) > 2:
        return None
    # batch comes first in every layout seen; a lone shared letter is the batch of a single head
    batch, head = (*sorted(shared, key=left.index), None, None)[:2]
    full = [batch or "", query[0], head or "", width[0]]

    def align(t: Tensor, letters: str, wanted: list[str | None]) -> Tensor:
        present = [c for c in wanted if c]
        t = t.permute([letters.index(c) for c in present])
        for axis, c in enumerate(wanted):
            t = t if c else t.unsqueeze(axis)
        return t

    def native(out: Tensor) -> Tensor:
        for axis in (2, 0):
            out = out if full[axis] else out.squeeze(axis)
        present = [c for c in full if c]
        return out.permute([present.index(c) for c in output])

    return Product(
        align(attention, left, [batch, head, query[0], key[0]]),
        align(value, right, [batch, head, key[0], width[0]]),
        lambda out: align(out, output, [batch, query[0], head, width[0]]),
        native,
    )


def fused_scores(
    query: Tensor, key: Tensor, *, scale: float | None = None, enable_gqa: bool = False
) -> Tensor:
    """The scaled scores ``(..., query, key)`` inside ``scaled_dot_product_attention``, unmasked."""
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
    return query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)


def fused_attention(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The weights that ``scaled_dot_product_attention`` applies without showing them.

    Returns:
        ``(..., query, key)``, each row summing to 1.
    """
    scores = fused_scores(query, key, scale=scale, enable_gqa=enable_gqa)
    if is_causal:
        absent = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(absent, float("-inf"))
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    return torch.softmax(scores, dim=-1)
