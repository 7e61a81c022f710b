"""The subspaces that head maps read and write, as orthonormal bases (Theory §3)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conwalk import tolerance
from conwalk.connection.transport import HeadTransports
from conwalk.operators.fields import working_dtype


@dataclass(frozen=True, eq=False)
class PrincipalBases:
    """Singular vectors of every head map, M[h] = Σ_r σ_r inputs[h, :, r] outputs[h, :, r]ᵀ.

    Columns of directions that a map does not have are 0, so that
    ``inputs[h] @ outputs[h].T`` is the polar factor of M[h] on its subspace, and products of
    bases need no mask.

    Attributes:
        inputs: orthonormal columns that span what each head reads.
        outputs: orthonormal columns that span what each head writes.
        rank: numerical rank of each map; 0 for a zero map.
    """

    inputs: Float[Tensor, "head width_in direction"]
    outputs: Float[Tensor, "head width_out direction"]
    rank: Int[Tensor, " head"]


def principal_bases(transports: HeadTransports) -> PrincipalBases:
    """Compute the singular vectors of all head maps through QR of their factors (Theory §3).

    Args:
        transports: the maps of the heads.

    Returns:
        The bases, in float32 or float64; no d×d matrix is made.
    """
    precision = working_dtype(transports.dtype)
    value, value_core = torch.linalg.qr(transports.W_V.to(precision))
    output, output_core = torch.linalg.qr(transports.W_O.to(precision).mT)
    readers = torch.arange(transports.n_heads, device=value.device) // transports.group
    left, sigma, right = torch.linalg.svd(
        value_core[readers] @ output_core.mT, full_matrices=False
    )
    floor = sigma[:, :1] * tolerance.rounding(precision, transports.value_width)
    kept = sigma > floor
    mask = kept.to(precision)[:, None]
    return PrincipalBases(value[readers] @ (left * mask), output @ (right.mT * mask), kept.sum(-1))
