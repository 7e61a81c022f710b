"""Whether a head's nearest isometry is a reflection, as a constant connection needs (Theory §3)."""

from jaxtyping import Float
from torch import Tensor

from conwalk.connection.subspaces import principal_bases
from conwalk.connection.transport import HeadTransports
from conwalk.errors import ShapeError


def antisymmetric_share(transports: HeadTransports) -> Float[Tensor, " head"]:
    """Compute the antisymmetric share of the polar factor O of each M[h] on its subspace.

    A constant transport satisfies ``O_ji = O_ijᵀ`` only if it is symmetric. With O = U Vᵀ of
    rank r, ``‖(O − Oᵀ)/2‖² / ‖O‖² = (1 − tr((VᵀU)²) / r) / 2``, from k×k matrices.

    Args:
        transports: the maps of the heads, of a space to itself.

    Returns:
        Shares in [0, 1]: 0 for a reflection, 1 for quarter turns; ``(1 − 1/d)/2`` by chance;
        NaN for a zero map. Theory §3.

    Raises:
        ShapeError: the maps do not map a space to itself.
    """
    if transports.width_in != transports.width_out:
        raise ShapeError(
            f"the maps go from width {transports.width_in} to {transports.width_out}: only maps "
            "of a space to itself have an antisymmetric part"
        )
    bases = principal_bases(transports)
    turned = bases.outputs.mT @ bases.inputs
    trace = (turned * turned.mT).sum((-2, -1))
    rank = bases.rank.to(trace.dtype)
    return ((1 - trace / rank) / 2).clamp(0.0, 1.0)


def antisymmetric_share_by_chance(width: int) -> float:
    """Give the expected antisymmetric share for independent random subspaces: (1 − 1/d)/2.

    Args:
        width: d.

    Returns:
        The expectation. Theory §3.
    """
    return (1 - 1 / width) / 2


def same_space(transports: HeadTransports) -> bool:
    """Tell whether the maps map a space to itself.

    Args:
        transports: the maps of the heads.

    Returns:
        True if a map can be compared with its transpose.
    """
    return transports.width_in == transports.width_out
