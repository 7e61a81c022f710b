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

    Directions that a map does not have are columns of 0, so that
    ``inputs[h] @ outputs[h].T`` is the polar factor of M[h] on its subspace, and products of
    bases need no mask.

    Attributes:
        value: orthonormal columns that span each W_V; heads that share a value map share them.
        output: orthonormal columns that span each W_O[h]ᵀ.
        left: coordinates of the inputs in ``value``.
        right: coordinates of the outputs in ``output``.
        rank: numerical rank of each map; 0 for a zero map.
    """

    value: Float[Tensor, "kv_head width_in column_in"]
    output: Float[Tensor, "head width_out column_out"]
    left: Float[Tensor, "head column_in direction"]
    right: Float[Tensor, "head column_out direction"]
    rank: Int[Tensor, " head"]

    @property
    def group(self) -> int:
        """Query heads per value head."""
        return len(self.output) // len(self.value)

    @property
    def inputs(self) -> Float[Tensor, "head width_in direction"]:
        """Orthonormal columns that span what each head reads."""
        return self.value.repeat_interleave(self.group, 0) @ self.left

    @property
    def outputs(self) -> Float[Tensor, "head width_out direction"]:
        """Orthonormal columns that span what each head writes."""
        return self.output @ self.right

    @property
    def is_full(self) -> bool:
        """Whether every head reads all that its W_V reads and writes all that its W_O writes."""
        columns = max(self.value.shape[-1], self.output.shape[-1])
        return bool((self.rank == columns).all())


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
    cores = value_core.repeat_interleave(transports.group, 0) @ output_core.mT
    left, sigma, right = torch.linalg.svd(cores, full_matrices=False)
    floor = sigma[:, :1] * tolerance.rounding(precision, transports.value_width)
    kept = sigma > floor
    mask = kept.to(precision)[:, None]
    return PrincipalBases(value, output, left * mask, right.mT * mask, kept.sum(-1))
