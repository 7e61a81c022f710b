"""Random head maps that keep chosen properties of given ones, for comparison (Theory §3)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection.transport import HeadTransports
from conwalk.operators.fields import working_dtype


def gaussian_maps(transports: HeadTransports, generator: torch.Generator) -> HeadTransports:
    """Draw independent Gaussian factors; shapes, sharing, ‖M[h]‖_F and biases are kept.

    Args:
        transports: the maps whose shapes and norms are kept.
        generator: on the CPU.

    Returns:
        Random maps with the norms of the given ones. Theory §3.
    """
    value = _normal(transports.W_V, generator)
    output = _normal(transports.W_O, generator)
    return _with_norms(transports, value, output)


def haar_maps(transports: HeadTransports, generator: torch.Generator) -> HeadTransports:
    """Draw scaled partial isometries; shapes, sharing, ‖M[h]‖_F and biases are kept.

    Args:
        transports: the maps whose shapes and norms are kept.
        generator: on the CPU.

    Returns:
        Random maps of isometry score 1, the ceiling (for k not above d). Theory §3.
    """
    value = _orthonormal(_normal(transports.W_V, generator))
    output = _orthonormal(_normal(transports.W_O, generator).mT).mT
    return _with_norms(transports, value, output)


def rotated_maps(transports: HeadTransports, generator: torch.Generator) -> HeadTransports:
    """Put a random rotation between the factors: M[h] = W_V[h] Ω[h] W_O[h], Ω Haar in O(k).

    Both factors keep their singular values; how the directions of one meet those of the other
    becomes random. That is a property of the factors as stored: it moves under a gauge that
    is not orthogonal, unlike M[h] itself.

    Args:
        transports: the maps whose factors are kept.
        generator: on the CPU.

    Returns:
        The rotated maps; a value bias is kept in the coordinates of W_V. Theory §3.
    """
    k = transports.value_width
    precision = working_dtype(transports.dtype)
    noise = torch.randn(transports.n_heads, k, k, generator=generator, dtype=torch.float64)
    rotation = _orthonormal(noise).to(transports.device, precision)
    output = (rotation @ transports.W_O.to(precision)).to(transports.dtype)
    return HeadTransports(transports.W_V, output, transports.b_V)


def _normal(like: Tensor, generator: torch.Generator) -> Tensor:
    drawn = torch.randn(like.shape, generator=generator, dtype=torch.float32)
    return drawn.to(like.device, working_dtype(like.dtype))


def _orthonormal(columns: Float[Tensor, "head rows k"]) -> Float[Tensor, "head rows k"]:
    """Haar orthonormal columns from Gaussian ones; orthonormal rows where there are fewer."""
    tall = columns.shape[-2] >= columns.shape[-1]
    basis, triangle = torch.linalg.qr(columns if tall else columns.mT)
    # QR fixes signs, Haar measure does not: those of the diagonal undo it
    basis = basis * triangle.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]
    return basis if tall else basis.mT


def _with_norms(like: HeadTransports, value: Tensor, output: Tensor) -> HeadTransports:
    raw = HeadTransports(value, output)
    scale = like.norms() / raw.norms()
    return HeadTransports(
        value.to(like.dtype), (output * scale[:, None, None]).to(like.dtype), like.b_V
    )
