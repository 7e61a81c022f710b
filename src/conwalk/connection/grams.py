"""Inner products of head maps from k×k matrices alone (Theory §3); no d×d matrix is made."""

import torch
from jaxtyping import Float
from torch import Tensor


def value_products(
    W_V: Float[Tensor, "kv_head width_in value"],
) -> Float[Tensor, "kv_head kv_head value value"]:
    """Multiply W_V[a]ᵀ W_V[b] for all pairs of value heads.

    Args:
        W_V: value maps, one per value head.

    Returns:
        B^V of Theory §3.
    """
    n_heads, _, value = W_V.shape
    flat = W_V.transpose(0, 1).flatten(1)
    return (flat.mT @ flat).view(n_heads, value, n_heads, value).transpose(1, 2)


def output_products(
    W_O: Float[Tensor, "head value width_out"],
) -> Float[Tensor, "head head value value"]:
    """Multiply W_O[h] W_O[g]ᵀ for all pairs of heads.

    Args:
        W_O: output maps, one per head.

    Returns:
        B^O of Theory §3.
    """
    return value_products(W_O.mT)


def gram(
    value: Float[Tensor, "kv_head kv_head value value"],
    output: Float[Tensor, "head head value value"],
) -> Float[Tensor, "head head"]:
    """Compute G[h,g] = <M[h], M[g]>, the Frobenius inner products of the head maps.

    Args:
        value: products of the value maps.
        output: products of the output maps; several heads may share a value head.

    Returns:
        G of Theory §3, symmetric and positive semidefinite.
    """
    n_heads, n_kv = len(output), len(value)
    grouped = output.unflatten(0, (n_kv, -1)).unflatten(2, (n_kv, -1))
    pairs = torch.einsum("abkl,aibjkl->aibj", value, grouped)
    return pairs.reshape(n_heads, n_heads)


def quartic(
    value: Float[Tensor, "kv_head kv_head value value"],
    output: Float[Tensor, "head head value value"],
) -> Float[Tensor, "head head head head"]:
    """Compute K[h,g,p,q] = tr(M[h]ᵀ M[g] M[p]ᵀ M[q]).

    Works by pairs (a, b) of value heads, h in the group of a and p in the group of b, so that
    only O(head² value²) numbers are held beside K itself; K[h,g,p,q] = K[p,q,h,g] halves the
    work.

    Args:
        value: products of the value maps.
        output: products of the output maps; several heads may share a value head.

    Returns:
        K of Theory §3.
    """
    n_heads, n_kv = len(output), len(value)
    group = n_heads // n_kv
    members = [slice(a * group, (a + 1) * group) for a in range(n_kv)]
    result = output.new_empty((n_heads,) * 4)
    for a in range(n_kv):
        for b in range(a, n_kv):
            left = _value_then_output(value[a], output[:, members[b]])
            right = _value_then_output(value[b], output[:, members[a]])
            flat = left.flatten(2).flatten(0, 1) @ right.mT.flatten(2).flatten(0, 1).mT
            tile = flat.view(n_heads, group, n_heads, group).permute(3, 0, 1, 2)
            result[members[a], :, members[b], :] = tile
            result[members[b], :, members[a], :] = tile.permute(2, 3, 0, 1)
    return result


def _value_then_output(
    value: Float[Tensor, "kv_head value value"],
    output: Float[Tensor, "head member value value"],
) -> Float[Tensor, "head member value value"]:
    """Multiply value[head // group] @ output[head, member]."""
    grouped = output.unflatten(0, (len(value), -1))
    return (value[:, None, None] @ grouped).flatten(0, 1)
