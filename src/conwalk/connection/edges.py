"""Norms and effective ranks of all transports at once, from G and K alone (Theory §3)."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.connection.walk import Weighting
from conwalk.errors import ShapeError
from conwalk.operators.fields import working_dtype

# Numbers held at a time: a few MB, which stay in the cache of one core.
_CHUNK = 1 << 19
_STEPS = 4


def edge_square_norms(
    walk: ConnectionWalk, weighting: Weighting = "uniform"
) -> Float[Tensor, "query key"]:
    """Compute ‖T[i,j]‖_F² = aᵀ G a of every edge, a = A[:,i,j] / P[i,j] (Theory §3).

    Args:
        walk: any walk without an output gate.
        weighting: ``"uniform"``, ``"norm"`` or one positive number per head.

    Returns:
        Squared norms >= 0 up to rounding, in float32 or float64; NaN on absent edges.

    Raises:
        SelectionError: an unknown weighting.
        ShapeError: the walk has an output gate, or a weighting that does not fit.
    """
    _require_closed_form(walk)
    total = walk.walk_matrix(weighting).flatten()
    edges = _present(total != 0)
    folded = fold_gram(walk.transports.gram())
    norms = _absent_everywhere(walk)
    for chunk in _chunks(edges, len(folded)):
        coefficients, size = _coefficients(walk, chunk)
        relative = size / total[chunk]
        norms[chunk] = (folded @ _pairs(coefficients)) * relative * relative
    return norms.view(walk.n_queries, walk.n_keys)


def edge_effective_ranks(walk: ConnectionWalk) -> Float[Tensor, "query key"]:
    """Compute the participation rank of every transport (Theory §3).

    It does not depend on the weighting of the heads, and lies between 1 and the rank of T.

    Args:
        walk: any walk without an output gate.

    Returns:
        r[i,j] = ‖T‖_F⁴ / ‖TᵀT‖_F², in float32 or float64; NaN where no head has an edge and
        where the heads cancel to T = 0.

    Raises:
        ShapeError: the walk has an output gate.
    """
    _require_closed_form(walk)
    edges = _present((walk.attention != 0).any(0))
    gram = fold_gram(walk.transports.gram())
    steps = _upper_blocks(fold_quartic(walk.transports.quartic()))
    ranks = _absent_everywhere(walk)
    for chunk in _chunks(edges, len(gram)):
        pairs = _pairs(_coefficients(walk, chunk)[0])
        squares = gram @ pairs
        fourths = _quadratic(steps, pairs)
        ranks[chunk] = squares * squares / fourths
    return ranks.view(walk.n_queries, walk.n_keys)


def fold_gram(gram: Float[Tensor, "head head"]) -> Float[Tensor, " pair"]:
    """Fold G onto the pairs h <= g, so that aᵀ G a = Σ_pair folded · a_h a_g.

    Args:
        gram: G of Theory §3.

    Returns:
        One number per pair, in the order of ``torch.triu_indices``.
    """
    first, second = torch.triu_indices(*gram.shape, device=gram.device)
    both = gram + gram.mT
    return both[first, second] * _multiplicity(first, second, gram)


def fold_quartic(quartic: Float[Tensor, "head head head head"]) -> Float[Tensor, "pair pair"]:
    """Fold K onto pairs of pairs, so that Σ a_h a_g a_p a_q K = uᵀ folded u, u = a_h a_g.

    Args:
        quartic: K of Theory §3.

    Returns:
        One number per pair h <= g and pair p <= q, in the order of ``torch.triu_indices``.
    """
    first, second = torch.triu_indices(*quartic.shape[:2], device=quartic.device)
    rows = quartic[first, second] + quartic[second, first]
    both = rows[:, first, second] + rows[:, second, first]
    times = _multiplicity(first, second, quartic)
    return both * times[:, None] * times


def _upper_blocks(form: Float[Tensor, "pair pair"]) -> list[Tensor]:
    """Cut a symmetric form into steps of rows, each from its diagonal on.

    What lies below the diagonal steps is counted above them, which spares three products in
    eight.
    """
    both = form.tril().mT + form.triu()
    blocks: list[Tensor] = []
    for rows in torch.arange(len(form), device=form.device).tensor_split(_STEPS):
        if len(rows):
            first, last = int(rows[0]), int(rows[-1]) + 1
            step = torch.cat([form[first:last, first:last], both[first:last, last:]], 1)
            blocks.append(step)
    return blocks


def _quadratic(steps: list[Tensor], pairs: Float[Tensor, "pair edge"]) -> Float[Tensor, " edge"]:
    """Evaluate the form that was cut into steps, at every edge."""
    total = pairs.new_zeros(pairs.shape[1])
    first = 0
    for step in steps:
        rows = pairs[first : first + len(step)]
        total += (step @ pairs[first:]).mul_(rows).sum(0)
        first += len(step)
    return total


def _multiplicity(first: Tensor, second: Tensor, like: Tensor) -> Float[Tensor, " pair"]:
    """Undo the double count of the pairs h = g in a sum over both orders."""
    return torch.where(first == second, 0.5, 1.0).to(like)


def _pairs(coefficients: Float[Tensor, "head edge"]) -> Float[Tensor, "pair edge"]:
    """Multiply the coefficients of all pairs of heads h <= g."""
    n_heads = len(coefficients)
    first, second = torch.triu_indices(n_heads, n_heads, device=coefficients.device)
    return coefficients[first].mul_(coefficients[second])


def _coefficients(
    walk: ConnectionWalk, edges: Int[Tensor, " edge"]
) -> tuple[Float[Tensor, "head edge"], Float[Tensor, " edge"]]:
    """Give A s of each head over its largest size, and that size.

    Fourth powers of small attention weights would underflow; of ratios they do not.
    """
    weights = walk.attention.flatten(1)[:, edges]
    if walk.value_scale is not None:
        weights = weights * walk.value_scale[:, edges % walk.n_keys]
    weights = weights.to(working_dtype(walk.dtype))
    size = weights.abs().amax(0)
    return weights / torch.where(size == 0, torch.ones_like(size), size), size


def _present(present: Tensor) -> Int[Tensor, " edge"]:
    """Number the present edges, row by row."""
    return present.flatten().nonzero().squeeze(1)


def _chunks(edges: Int[Tensor, " edge"], n_pairs: int) -> Iterator[Int[Tensor, " chunk"]]:
    """Cut the edges so that one chunk holds a bounded number of pairs."""
    return iter(edges.split(max(1, _CHUNK // n_pairs)))


def _absent_everywhere(walk: ConnectionWalk) -> Float[Tensor, " edge"]:
    size = walk.n_queries * walk.n_keys
    precision = working_dtype(walk.dtype)
    return torch.full((size,), torch.nan, dtype=precision, device=walk.device)


def _require_closed_form(walk: ConnectionWalk) -> None:
    """Refuse a walk whose transports are not combinations of the head maps alone."""
    if walk.output_gate is not None:
        raise ShapeError(
            "the walk has an output gate, so its transports are no combinations of head maps: "
            "use walk.transport(i, j) for single edges"
        )
