"""The walk matrix, and norm and effective rank of every edge, as images (Theory §1, §3)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk import dims
from conwalk.connection import ConnectionWalk, edge_effective_ranks, edge_square_norms
from conwalk.metrics.metric import Arrays, Quantity

CELLS = 256
"""Largest number of cells along an axis of an image."""

_AXES = (dims.QUERY, dims.KEY)

QUANTITIES = (
    Quantity(
        "walk_matrix", "P_ij", _AXES, "1", (None, None),
        "weight of the step from a token (row) to a token it attends to, mean over the heads",
        "Theory §1", comparable=False,
    ),
    Quantity(
        "edge_norm", "‖T_ij‖_F", _AXES, "1", (0.0, None),
        "norm of the transport along an edge, for heads of equal weight",
        "Theory §3",
    ),
    Quantity(
        "edge_effective_rank", "r_eff(T_ij)", _AXES, "1", (1.0, None),
        "participation rank of the transport along an edge",
        "Theory §3",
    ),
)  # fmt: skip


def tokens_per_cell(n_tokens: int) -> int:
    """How many tokens share a cell of an image, so that it has at most ``CELLS`` a side."""
    return max(1, -(-n_tokens // CELLS))


def edge_rows(walk: ConnectionWalk, cell: int) -> Arrays:
    """Compute the images of some query rows, with the keys already in cells.

    Args:
        walk: these rows; any walk.
        cell: tokens in a cell.

    Returns:
        ``walk_matrix``, ``edge_norm``, ``edge_effective_rank``, each ``(query, cell)``; the last
        two are NaN where there is no edge, and everywhere if the walk has an output gate.
    """
    weight = walk.walk_matrix()
    if walk.output_gate is not None:
        norms = ranks = torch.full_like(weight, torch.nan)
    else:
        norms, ranks = edge_square_norms(walk).clamp_(min=0).sqrt_(), edge_effective_ranks(walk)
    found = {"walk_matrix": weight, "edge_norm": norms, "edge_effective_rank": ranks}
    return {name: in_cells(image.mT, cell).mT for name, image in found.items()}


def in_cells(rows: Float[Tensor, "row column"], cell: int) -> Float[Tensor, "cell column"]:
    """Average consecutive rows, ``cell`` at a time, passing over NaN.

    Args:
        rows: any numbers.
        cell: rows in a cell; the last cell may have fewer.

    Returns:
        The means; NaN where all of a cell is.
    """
    if cell == 1:
        return rows
    missing = -len(rows) % cell
    padded = torch.cat([rows, rows.new_full((missing, rows.shape[1]), torch.nan)])
    return padded.unflatten(0, (-1, cell)).nanmean(1)
