"""The lifted operator Σ_h A_h ⊗ M_h of a layer, through Gram matrices alone (Theory §4)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.connection.distances import relative_distance
from conwalk.connection.graphs import uniform_graph
from conwalk.connection.transport import HeadTransports
from conwalk.errors import ShapeError


def cross_gram(first: HeadTransports, second: HeadTransports) -> Float[Tensor, "head head_to"]:
    """Compute ⟨M[h], M'[g]⟩_F = ⟨W_V[h]ᵀ W_V'[g], W_O[h] W_O'[g]ᵀ⟩ of two layers (Theory §4).

    Args:
        first: maps of one layer.
        second: maps of another layer between spaces of the same widths; any number of heads.

    Returns:
        Inner products of the head maps in float64; no d×d matrix is made.

    Raises:
        ShapeError: the layers read or write vectors of different widths.
    """
    if (first.width_in, first.width_out) != (second.width_in, second.width_out):
        raise ShapeError(
            f"maps {first.width_in} -> {first.width_out} and {second.width_in} -> "
            f"{second.width_out} cannot be compared: give layers of the same widths"
        )
    value = first.value_columns.double().mT @ second.value_columns.double()
    output = first.output_rows.double() @ second.output_rows.double().mT
    shape = (first.value_width, second.n_heads, second.value_width)
    grouped = (first.n_kv_heads, first.value_width, second.n_kv_heads, second.value_width)
    values = value.view(grouped).repeat_interleave(first.group, 0)
    return torch.einsum(
        "hkgl,hkgl->hg",
        values.repeat_interleave(second.group, 2),
        output.view(first.n_heads, *shape),
    )


def lifted_inner(
    first: ConnectionWalk,
    second: ConnectionWalk,
    gram: Float[Tensor, "head head_to"] | None = None,
) -> Float[Tensor, ""]:
    """Compute ⟨𝒲, 𝒲'⟩_F = Σ_hg ⟨A_h, A'_g⟩ ⟨M_h, M'_g⟩ of the walks of two layers (Theory §4).

    Args:
        first: a walk without an output gate.
        second: another one over the same tokens and widths.
        gram: ``cross_gram`` of their transports, where it is known.

    Returns:
        The inner product of the nd×nd matrices, in float64.

    Raises:
        ShapeError: tokens or widths differ, or a walk has an output gate.
    """
    left, right = _coefficients(first), _coefficients(second)
    if left.shape[1:] != right.shape[1:]:
        raise ShapeError(
            f"walks over {tuple(left.shape[1:])} and {tuple(right.shape[1:])} tokens cannot be "
            "compared: give layers of one prompt"
        )
    maps = cross_gram(first.transports, second.transports) if gram is None else gram
    return (left.flatten(1) @ right.flatten(1).mT * maps).sum()


def lifted_distance(first: ConnectionWalk, second: ConnectionWalk) -> Float[Tensor, ""]:
    """Compute ‖𝒲 − 𝒲'‖_F over the root mean square of both norms (Theory §4).

    From Gram matrices alone: the nd×nd matrices are never made.

    Args:
        first: a walk without an output gate.
        second: another over the same tokens and widths.

    Returns:
        In [0, 2], in float64; √2 where the two have nothing to do with each other.

    Raises:
        ShapeError: tokens or widths differ, or a walk has an output gate.
    """
    own, other = lifted_inner(first, first), lifted_inner(second, second)
    gap = own + other - 2 * lifted_inner(first, second)
    return relative_distance(gap, (own + other) / 2)


def evened(walk: ConnectionWalk) -> ConnectionWalk:
    """Give the same head maps with even attention: every head looks at every key it can reach.

    Args:
        walk: any walk.

    Returns:
        The walk whose attention is the uniform kernel in each head (Theory §4).
    """
    even = uniform_graph(walk.attention.abs().sum(0))
    return ConnectionWalk.from_transports(
        even.expand(walk.n_heads, -1, -1), walk.transports, value_scale=walk.value_scale
    )


def _coefficients(walk: ConnectionWalk) -> Float[Tensor, "head query key"]:
    """Give what multiplies M[h] on each edge."""
    if walk.output_gate is not None:
        raise ShapeError(
            "the walk has an output gate, so it is no sum of A ⊗ M: compare its graphs instead"
        )
    attention = walk.attention.double()
    return attention if walk.value_scale is None else attention * walk.value_scale[:, None]
