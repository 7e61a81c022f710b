"""Vector diffusion maps: tokens as points, near where many short ways agree (Singer & Wu 2012)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection.symmetrised import ConnectionGraph
from conwalk.errors import SelectionError


@dataclass(frozen=True, eq=False)
class VectorDiffusionMap:
    """An embedding of the tokens.

    Attributes:
        coordinates: one point to each token; inner products are ‖(N^2t)_ij‖², N the normalised
            adjacency, up to the eigenvalues left out. Gauge and signs of eigenvectors fall out.
        eigenvalues: of N, those used, descending.
        fields: the orthonormal eigenvectors.
        time: t.
    """

    coordinates: Float[Tensor, "token pair"]
    eigenvalues: Float[Tensor, " count"]
    fields: Float[Tensor, "count token rank"]
    time: int

    @property
    def distances(self) -> Float[Tensor, "token token"]:
        """Vector diffusion distances between the tokens."""
        return torch.cdist(
            self.coordinates, self.coordinates, compute_mode="donot_use_mm_for_euclid_dist"
        )


def vector_diffusion_map(
    graph: ConnectionGraph, count: int = 8, *, time: int = 1
) -> VectorDiffusionMap:
    """Embed the tokens by the leading eigenvectors of the symmetrised walk (Theory §5).

    Coordinate (p, q) of token i is (λ_p λ_q)^t ⟨v_p(i), v_q(i)⟩, with factor √2 for p < q.

    Args:
        graph: a connection graph, such as that of :func:`symmetrise`.
        count: how many eigenvectors, from 1 to token·rank.
        time: t, the number of double steps; 0 or more.

    Returns:
        count·(count + 1)/2 coordinates to each token.

    Raises:
        SelectionError: there are not so many eigenvectors, or a time below 0.
    """
    if time < 0:
        raise SelectionError(f"time {time} is in the past: give 0 or more")
    values, fields = graph.leading(count)
    first, second = torch.triu_indices(count, count)
    factors = (values[first] * values[second]) ** time
    factors = factors * (1 + (first != second).to(factors.dtype)).sqrt()
    products = torch.einsum("pia,qia->ipq", fields, fields)[:, first, second]
    return VectorDiffusionMap(products * factors, values, fields, time)


def principal_axes(
    coordinates: Float[Tensor, "token coordinate"],
) -> Float[Tensor, "token axis"]:
    """Turn points onto the axes along which they differ most, the first one most.

    Distances between points stay as they are. Each axis points to where its entry of largest
    modulus lies; where two axes explain alike, any rotation of them is as good.

    Args:
        coordinates: one point to each token.

    Returns:
        As many axes as there are points or coordinates, whichever is less; centred.
    """
    left, sizes, _ = torch.linalg.svd(coordinates - coordinates.mean(0), full_matrices=False)
    points = left * sizes
    largest = points.abs().argmax(0, keepdim=True)
    return points * torch.where(points.gather(0, largest) < 0, -1.0, 1.0)
