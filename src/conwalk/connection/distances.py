"""How far apart two effective graphs are, each function over any batch of pairs (Theory §4)."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from conwalk import tolerance

# Numbers held at a time: a few MB, which stay in the cache of one core.
_CHUNK = 1 << 18

Distance = Callable[[Tensor, Tensor], Tensor]
"""Two batches of objects of one kind, which broadcast, to a distance for each pair."""


def pairwise(
    distance: Distance, objects: Float[Tensor, "layer *rest"]
) -> Float[Tensor, "layer layer"]:
    """Compare every layer with every layer.

    Args:
        distance: any symmetric function of this module.
        objects: what it compares.

    Returns:
        The symmetric matrix of distances.
    """
    n_layers = len(objects)
    rows = [distance(objects[layer], objects[layer:]) for layer in range(n_layers)]
    upper = torch.stack([pad(row, (n_layers - len(row), 0)) for row in rows])
    return upper + upper.mT


def adjacent(distance: Distance, objects: Float[Tensor, "layer *rest"]) -> Float[Tensor, " layer"]:
    """Compare every layer with the next.

    Args:
        distance: any function of this module.
        objects: what it compares.

    Returns:
        At l the distance from l to l + 1; NaN at the last layer.
    """
    steps = one_by_one(distance, objects[:-1], objects[1:])
    return pad(steps, (0, 1), value=torch.nan)


def one_by_one(
    distance: Distance,
    first: Float[Tensor, "layer *rest"],
    second: Float[Tensor, "#layer *rest"],
) -> Float[Tensor, " layer"]:
    """Compare layer by layer, a few at a time, so that what is in flight stays small.

    Args:
        distance: any function of this module.
        first: what it compares.
        second: as many, or one.

    Returns:
        The distance at each layer.
    """
    if not len(first):
        return first.new_empty(0)
    size = max(1, _CHUNK // first[0].numel())
    others = second.expand_as(first)
    return torch.cat(
        [distance(*pair) for pair in zip(first.split(size), others.split(size), strict=True)]
    )


def total_variation(
    first: Float[Tensor, "*#batch query key"], second: Float[Tensor, "*#batch query key"]
) -> Float[Tensor, "*batch"]:
    """Average the total variation of the rows: mean_i ½ Σ_j |P_ij − Q_ij| (Theory §4).

    Args:
        first: graphs with rows of sum 1 (or less, where there is a leak).
        second: as many graphs, or one.

    Returns:
        In [0, 1]; rows that are empty in both graphs do not count, and without any row it is 0.
    """
    gap = (first - second).abs().sum((-2, -1))
    rows = (_filled(first) | _filled(second)).sum(-1)
    return _per_row(gap, rows)


def total_variations(
    graphs: Float[Tensor, "layer query key"],
) -> Float[Tensor, "layer layer"]:
    """Compute the mean row total variation between all pairs, block by block of rows.

    Args:
        graphs: graphs with rows of sum 1 (or less).

    Returns:
        The symmetric matrix of ``total_variation``, 0 on the diagonal.
    """
    n_layers, _, n_keys = graphs.shape
    gap = torch.zeros(n_layers, n_layers, dtype=torch.float64, device=graphs.device)
    for block in graphs.split(max(1, _CHUNK // (n_layers * n_keys)), dim=1):
        rows = block.contiguous()
        for layer in range(n_layers):
            gap[layer, layer:] += (rows[layer:] - rows[layer]).abs_().sum((-2, -1))
    filled = _filled(graphs)
    both = (filled[:, None] | filled).sum(-1)
    return _per_row(gap + gap.triu(1).mT, both).to(graphs.dtype)


def _filled(graph: Float[Tensor, "*batch query key"]) -> Tensor:
    """Which rows hold anything."""
    return graph.sum(-1) != 0


def _per_row(gap: Tensor, rows: Tensor) -> Tensor:
    return (gap / (2 * rows.clamp(min=1))).clamp(max=1.0)


def frobenius(
    first: Float[Tensor, "*#batch query key"], second: Float[Tensor, "*#batch query key"]
) -> Float[Tensor, "*batch"]:
    """Compute ‖P − Q‖_F >= 0 (Theory §4).

    Args:
        first: matrices.
        second: as many matrices, or one.

    Returns:
        Distances in the units of the matrices.
    """
    return (first - second).square().sum((-2, -1)).sqrt()


def relative_frobenius(
    first: Float[Tensor, "*#batch query key"], second: Float[Tensor, "*#batch query key"]
) -> Float[Tensor, "*batch"]:
    """Compute ‖P − Q‖_F over the root mean square of ‖P‖_F and ‖Q‖_F (Theory §4).

    Args:
        first: matrices.
        second: as many matrices, or one.

    Returns:
        In [0, 2], and in [0, √2] for nonnegative matrices; 0 between zero matrices.
    """
    gap = (first - second).square().sum((-2, -1))
    size = (first.square().sum((-2, -1)) + second.square().sum((-2, -1))) / 2
    return relative_distance(gap, size)


def relative_distance(
    gap: Float[Tensor, "*batch"], size: Float[Tensor, "*batch"]
) -> Float[Tensor, "*batch"]:
    """Turn a squared distance and the mean of the squared sizes into a relative distance.

    Args:
        gap: squared distances; rounding may have left them below 0.
        size: (‖P‖² + ‖Q‖²) / 2.

    Returns:
        √(gap / size) in [0, 2]; 0 where both are zero.
    """
    ratio = gap.clamp(min=0) / torch.where(size == 0, torch.ones_like(size), size)
    return ratio.sqrt().clamp(max=2.0)


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


def relative_to_uniform(
    distance: Float[Tensor, "*batch"],
    first: Float[Tensor, "*batch"],
    second: Float[Tensor, "*batch"],
) -> Float[Tensor, "*batch"]:
    """Divide a distance by the mean distance of both ends to the uniform kernel (Theory §4).

    Near-uniform graphs are near each other whatever they are; here that does not help them.

    Args:
        distance: between two graphs.
        first: of the one to the uniform kernel.
        second: of the other to the uniform kernel.

    Returns:
        At most 2 where the distance is a metric and both graphs have one uniform kernel (the
        triangle inequality); about √2 for graphs that leave it in unrelated directions; 0 where
        both are uniform up to rounding.
    """
    scale = (first + second) / 2
    flat = scale <= tolerance.rounding(scale.dtype)
    ratio = distance / torch.where(flat, torch.ones_like(scale), scale)
    return torch.where(flat, torch.zeros_like(ratio), ratio)
