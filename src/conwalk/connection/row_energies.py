"""What the energy ledger is made of, summed over senders from values and head maps (Theory §2)."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.connection.propagation import mix
from conwalk.operators.fields import working_dtype

# Numbers held at a time beside the inputs: some MB.
_CHUNK = 1 << 20


class RowEnergies(NamedTuple):
    """What the ledger is made of, receiver by receiver, in float64; any leading axes.

    Attributes:
        own: ‖x_i‖².
        mass: Σ_j P_ij.
        arriving: Σ_j P_ij ‖x_j‖².
        carried: Σ_j P_ij ‖x_j T_ij‖².
        cross: Σ_j P_ij x_i · (x_j T_ij), from the mixed values and x_i W_Oᵀ.
        applied: x_i · (walk x)_i, the same through the operator.
    """

    own: Float[Tensor, "*lead query"]
    mass: Float[Tensor, "*lead query"]
    arriving: Float[Tensor, "*lead query"]
    carried: Float[Tensor, "*lead query"]
    cross: Float[Tensor, "*lead query"]
    applied: Float[Tensor, "*lead query"]


def row_energies(
    walk: ConnectionWalk, x: Float[Tensor, "key width"], first: int = 0
) -> RowEnergies:
    """Collect the sums over senders that the ledger needs, for the uniform walk matrix.

    Args:
        walk: rows ``first``, ``first + 1``, ... of a square walk without signs or output gate.
        x: the field at all tokens.
        first: index of the first row.

    Returns:
        The sums; with T = 0 on absent edges. No d×d matrix and no n²·d array is made.
    """
    walk, x = _in_working_dtype(walk, x)
    matrix, own = walk.walk_matrix(), x.square().sum(-1)
    here = slice(first, first + walk.n_queries)
    values = (x @ walk.transports.value_columns).unflatten(-1, (walk.transports.n_kv_heads, -1))
    return _in_double(
        own=own[here],
        mass=matrix.sum(-1),
        arriving=matrix @ own,
        carried=_carried(walk, matrix, values.transpose(0, 1)),
        cross=_cross(walk, x[here], values.transpose(0, 1)).sum(0),
        applied=(x[here] * (walk @ x)).sum(-1),
    )


def head_energies(
    walk: ConnectionWalk, x: Float[Tensor, "key width"], first: int = 0
) -> RowEnergies:
    """Collect the same for each head as a walk of its own, P = A[h] and T = M[h].

    Args:
        walk: rows ``first``, ``first + 1``, ... of a square walk without signs or output gate.
        x: the field at all tokens.
        first: index of the first row.

    Returns:
        The sums, (head, query).
    """
    walk, x = _in_working_dtype(walk, x)
    own = x.square().sum(-1)
    here = slice(first, first + walk.n_queries)
    values = (x @ walk.transports.value_columns).unflatten(-1, (walk.transports.n_kv_heads, -1))
    values = values.transpose(0, 1)
    sizes = torch.linalg.vector_norm(_sent(walk, values), dim=-1).square()
    if walk.value_scale is not None:
        sizes = sizes * walk.value_scale.square()
    return _in_double(
        own=own[here].expand(walk.n_heads, -1),
        mass=walk.attention.sum(-1),
        arriving=walk.attention @ own,
        carried=(walk.attention @ sizes[..., None]).squeeze(-1),
        cross=_cross(walk, x[here], values),
        applied=torch.stack([(x[here] * (head @ x)).sum(-1) for head in walk.heads]),
    )


def has_energies(walk: ConnectionWalk, x: Float[Tensor, "key width"], first: int = 0) -> bool:
    """Say whether the sums are defined: rows of a square walk without signs or output gate.

    Args:
        walk: rows ``first``, ``first + 1``, ... of a walk.
        x: the field at all senders.
        first: index of the first row.

    Returns:
        Whether ``row_energies`` and ``head_energies`` may be asked for.
    """
    transports = walk.transports
    return (
        first + walk.n_queries <= len(x)
        and transports.width_in == transports.width_out
        and walk.output_gate is None
        and not bool((walk.attention < 0).any())
    )


def _in_working_dtype(walk: ConnectionWalk, x: Tensor) -> tuple[ConnectionWalk, Tensor]:
    """Leave half precision, where squares and sums of many terms have no digits."""
    precision = working_dtype(walk.dtype)
    return (walk if walk.dtype == precision else walk.to(dtype=precision)), x.to(precision)


def _in_double(**sums: Tensor) -> RowEnergies:
    return RowEnergies(**{name: value.double() for name, value in sums.items()})


def _sent(
    walk: ConnectionWalk, values: Float[Tensor, "kv_head key value"]
) -> Float[Tensor, "head key width"]:
    """Give x_j M[h] from the values."""
    maps = walk.transports.W_O.unflatten(0, (len(values), -1))
    return (values[:, None] @ maps).flatten(0, 1)


def _carried(
    walk: ConnectionWalk,
    matrix: Float[Tensor, "query key"],
    values: Float[Tensor, "kv_head key value"],
) -> Float[Tensor, " query"]:
    """Sum P_ij ‖x_j T_ij‖² = Σ_hg A_hij A_gij <x_j M_h, x_j M_g> / P_ij over j, keys in chunks."""
    step = max(1, _CHUNK // (walk.n_heads * max(walk.transports.width_out, walk.n_queries)))
    total = torch.zeros(walk.n_queries, dtype=torch.float64, device=walk.device)
    for start in range(0, walk.n_keys, step):
        keys = slice(start, start + step)
        sent = _sent(walk, values[:, keys]).transpose(0, 1)
        weights = walk.attention[..., keys].permute(2, 0, 1)
        if walk.value_scale is not None:
            weights = weights * walk.value_scale[:, keys].mT[..., None]
        edge = matrix[:, keys].mT[:, None]
        ratio = weights / torch.where(edge == 0, torch.ones_like(edge), edge)
        total += (((sent @ sent.mT) @ ratio) * weights).sum((0, 1)).double()
    return total


def _cross(
    walk: ConnectionWalk,
    x: Float[Tensor, "query width"],
    values: Float[Tensor, "kv_head key value"],
) -> Float[Tensor, "head query"]:
    """Multiply the mixed values of each head with x_i W_O[h]ᵀ."""
    mixed = mix(values[:, :, None], walk.attention, walk.value_scale)[:, :, 0]
    pulled = (x @ walk.transports.output_rows.mT).unflatten(-1, (walk.n_heads, -1))
    return torch.einsum("hik,ihk->hi", mixed, pulled)
