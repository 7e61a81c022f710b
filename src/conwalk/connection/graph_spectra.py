"""What graphs are compared by beside their weights: spectra, diffusion, subspaces (Theory §4)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import tolerance


def singular_spectra(
    graphs: Float[Tensor, "*batch query key"],
) -> Float[Tensor, "*batch value"]:
    """Give the singular values of each graph, descending."""
    return torch.linalg.svdvals(graphs)


def spectral_wasserstein(
    first: Float[Tensor, "*#batch value"], second: Float[Tensor, "*#batch value"]
) -> Float[Tensor, "*batch"]:
    """Compute the Wasserstein-1 distance between singular spectra (Theory §4).

    Args:
        first: singular values, sorted.
        second: as many, sorted the same way.

    Returns:
        mean_m |σ_m − τ_m| >= 0, the distance of the two spectra as distributions of equal mass.
    """
    return (first - second).abs().mean(-1)


def normalised_laplacian(
    graphs: Float[Tensor, "*batch token token"],
) -> Float[Tensor, "*batch token token"]:
    """Give I − D^{−½} S D^{−½} of the symmetrised graph S = (P + Pᵀ)/2 (Theory §4).

    Args:
        graphs: nonnegative square graphs.

    Returns:
        Symmetric, spectrum in [0, 2]; a token without edges has a 1 on the diagonal and nothing
        else, so that it does not pass for a part of the bottom of the spectrum.
    """
    even = (graphs + graphs.mT) / 2
    degree = even.sum(-1)
    root = torch.where(degree > 0, degree, torch.inf).rsqrt()
    scaled = root[..., None] * root[..., None, :] * even
    return torch.eye(graphs.shape[-1], dtype=graphs.dtype, device=graphs.device) - scaled


def heat_kernel(
    values: Float[Tensor, "*batch token"],
    vectors: Float[Tensor, "*batch token token"],
    time: float,
) -> Float[Tensor, "*batch token token"]:
    """Give exp(−t L) from the eigenvalues and eigenvectors of L (Theory §4).

    Args:
        values: eigenvalues of L.
        vectors: eigenvectors in the columns.
        time: t > 0, in units of the normalised Laplacian.

    Returns:
        Symmetric positive definite; compare with ``relative_frobenius``.
    """
    return (vectors * (-time * values).exp()[..., None, :]) @ vectors.mT


def bottom_projector(
    values: Float[Tensor, "*batch token"], vectors: Float[Tensor, "*batch token token"], m: int
) -> Float[Tensor, "*batch token token"]:
    """Project on the eigenvectors of the m smallest eigenvalues (Theory §4).

    An eigenvalue that equals the m-th up to rounding belongs to the subspace too: of a
    degenerate eigenspace all or nothing is taken, as no basis of it means anything.

    Args:
        values: eigenvalues, ascending.
        vectors: eigenvectors in the columns.
        m: wanted dimension; all of the space if it has fewer.

    Returns:
        Orthogonal projectors of rank m or more, which depend on the subspaces alone.
    """
    n = values.shape[-1]
    last = values[..., min(m, n) - 1, None]
    slack = tolerance.rounding(values.dtype, n) * values.abs().amax(-1, keepdim=True)
    chosen = vectors * (values <= last + slack)[..., None, :]
    return chosen @ chosen.mT


def subspace_distance(
    first: Float[Tensor, "*#batch token token"], second: Float[Tensor, "*#batch token token"]
) -> Float[Tensor, "*batch"]:
    """Compute the root mean squared sine of the principal angles of two subspaces (Theory §4).

    Args:
        first: orthogonal projectors.
        second: orthogonal projectors.

    Returns:
        √(mean_m sin²θ_m) over the angles of the smaller subspace, in [0, 1]; 0 if one contains
        the other up to rounding, which the root would blow up.
    """
    rank, other = _rank(first), _rank(second)
    surplus = (first - second).square().sum((-2, -1)) - (rank - other).abs()
    noise = tolerance.rounding(first.dtype, first.shape[-1]) * torch.maximum(rank, other)
    surplus = torch.where(surplus <= noise, torch.zeros_like(surplus), surplus)
    return (surplus / (2 * torch.minimum(rank, other))).sqrt().clamp(max=1.0)


def equal_rank_distance(
    first: Float[Tensor, "*#batch token token"], second: Float[Tensor, "*#batch token token"]
) -> Float[Tensor, "*batch"]:
    """Give ``subspace_distance`` between subspaces of one dimension, where it is a metric.

    Args:
        first: orthogonal projectors.
        second: orthogonal projectors.

    Returns:
        In [0, 1]; NaN where the dimensions differ, as they do when an eigenvalue is degenerate.
    """
    differ = _rank(first) != _rank(second)
    return subspace_distance(first, second).masked_fill(differ, torch.nan)


def _rank(projector: Tensor) -> Tensor:
    return projector.diagonal(dim1=-2, dim2=-1).sum(-1).round()


def principal_angles(
    first: Float[Tensor, "token rank"], second: Float[Tensor, "token rank_to"]
) -> Float[Tensor, " angle"]:
    """Give the principal angles between the spans of two orthonormal bases (Theory §4).

    Args:
        first: orthonormal columns.
        second: orthonormal columns.

    Returns:
        Angles in [0, π/2], ascending; as many as the smaller span has dimensions.
    """
    cosines = torch.linalg.svdvals(first.mT @ second)
    return cosines.clamp(max=1.0).acos()
