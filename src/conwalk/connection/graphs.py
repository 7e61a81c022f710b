"""The effective graph of a layer: one weight per edge, made of all its heads (Theory §4)."""

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.errors import SelectionError, ShapeError
from conwalk.operators.fields import working_dtype

GRAPHS = ("mean", "norm", "value", "vector")
"""Names of the effective graphs."""

# Numbers held at a time: a few MB, which stay in the cache of one core.
_CHUNK = 1 << 20


def effective_graph(
    walk: ConnectionWalk, x: Float[Tensor, "key width_in"], name: str = "mean"
) -> Float[Tensor, "query key"]:
    """Give one of the effective graphs by name.

    Args:
        walk: any walk; ``value`` and ``vector`` need one without an output gate.
        x: what the value projection reads; ``mean`` and ``norm`` do not look at it.
        name: one of ``GRAPHS``.

    Returns:
        The graph, in float32 or float64.

    Raises:
        SelectionError: an unknown name.
        ShapeError: the walk has an output gate.
    """
    if name == "mean":
        return mean_graph(walk)
    if name == "norm":
        return norm_graph(walk)
    if name == "value":
        return value_graph(walk, x)
    if name == "vector":
        return vector_graph(walk, x)
    raise SelectionError(f"graph {name!r} is unknown: choose one of {', '.join(GRAPHS)}")


def mean_graph(walk: ConnectionWalk) -> Float[Tensor, "query key"]:
    """Average the attention of the heads: 1/H Σ_h A[h,i,j] (Theory §4).

    Args:
        walk: any walk.

    Returns:
        The walk matrix of uniform head weights, in float32 or float64; a row sums to the mean
        row sum of the heads.
    """
    weight = torch.tensor(1 / walk.n_heads, dtype=working_dtype(walk.dtype), device=walk.device)
    return _combine(walk, weight.expand(walk.n_heads, 1))


def norm_graph(walk: ConnectionWalk) -> Float[Tensor, "query key"]:
    """Weigh each head by the norm of its map: ∝ Σ_h A[h,i,j] ‖s[h,j] M[h]‖_F (Theory §4).

    Args:
        walk: any walk; its output gate, which belongs to no edge, is left out.

    Returns:
        Rows with sum 1; a row without any weight stays 0.
    """
    weights = walk.transports.norms()[:, None]
    if walk.value_scale is not None:
        weights = weights * walk.value_scale.abs()
    return normalise_rows(_combine(walk, weights))


def value_graph(
    walk: ConnectionWalk, x: Float[Tensor, "key width_in"]
) -> Float[Tensor, "query key"]:
    """Weigh each edge by what it carries, head by head: ∝ Σ_h A[h,i,j] ‖x_j M[h]‖ (Theory §4).

    Args:
        walk: any walk without an output gate.
        x: what the value projection reads.

    Returns:
        Rows with sum 1; a row without any weight stays 0.

    Raises:
        ShapeError: the walk has an output gate.
    """
    return normalise_rows(_combine(walk, value_norms(walk, x)))


def vector_graph(
    walk: ConnectionWalk, x: Float[Tensor, "key width_in"]
) -> Float[Tensor, "query key"]:
    """Weigh each edge by the vector it carries: ∝ ‖Σ_h A[h,i,j] x_j M[h]‖ (Theory §4).

    The norms are a_ijᵀ Q_j a_ij with the Gram matrices Q_j of what the heads write of x_j
    (Kobayashi et al. 2020), so heads may cancel. Beside O(head · query · key) it holds a
    bounded number of vectors at a time.

    Args:
        walk: any walk without an output gate.
        x: what the value projection reads.

    Returns:
        Rows with sum 1; a row without any weight stays 0.

    Raises:
        ShapeError: the walk has an output gate.
    """
    values = _values(walk, x)
    output = walk.transports.W_O.to(values.dtype)
    attention = walk.attention.to(values.dtype)
    graph = values.new_empty(walk.n_queries, walk.n_keys)
    width = walk.n_heads * max(walk.transports.width_out, walk.n_queries)
    for keys in torch.arange(walk.n_keys, device=walk.device).split(max(1, _CHUNK // width)):
        written = (values[:, keys] @ output).transpose(0, 1)
        gram = written @ written.mT
        edges = attention[:, :, keys].permute(2, 1, 0)
        graph[:, keys] = ((edges @ gram) * edges).sum(-1).mT
    return normalise_rows(graph.clamp_(min=0).sqrt_())


def value_norms(
    walk: ConnectionWalk, x: Float[Tensor, "key width_in"]
) -> Float[Tensor, "head key"]:
    """Measure what each head would carry from each token: ‖s[h,j] x_j M[h]‖ (Theory §4).

    Args:
        walk: any walk without an output gate.
        x: what the value projection reads.

    Returns:
        Norms >= 0, in float32 or float64; biases are left out, as in x_j M[h].

    Raises:
        ShapeError: the walk has an output gate.
    """
    values = _values(walk, x)
    squares = ((values @ walk.transports.output_squares) * values).sum(-1)
    return squares.clamp(min=0).sqrt()


def _values(
    walk: ConnectionWalk, x: Float[Tensor, "key width_in"]
) -> Float[Tensor, "head key value"]:
    """Give what each head reads of each token: s[h,j] x_j W_V[h]."""
    if walk.output_gate is not None:
        raise ShapeError(
            "the walk has an output gate, so what an edge carries depends on its receiver: "
            "choose the graph 'mean' or 'norm'"
        )
    maps = walk.transports
    values = (x @ maps.value_columns).unflatten(-1, (maps.n_kv_heads, -1)).transpose(0, 1)
    values = values.to(working_dtype(walk.dtype)).repeat_interleave(maps.group, 0)
    return values if walk.value_scale is None else values * walk.value_scale[..., None]


def _combine(
    walk: ConnectionWalk, weights: Float[Tensor, "head #key"]
) -> Float[Tensor, "query key"]:
    """Add up the weighted attention head by head, so that only one n×n sum is in flight."""
    precision = working_dtype(walk.dtype)
    total = torch.zeros(walk.n_queries, walk.n_keys, dtype=precision, device=walk.device)
    for attention, weight in zip(walk.attention, weights.to(precision), strict=True):
        total.addcmul_(attention.to(precision), weight)
    return total


def normalise_rows(graph: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """Divide each row by its sum.

    Args:
        graph: weights, nonnegative.

    Returns:
        Rows with sum 1; a row without any weight stays 0.
    """
    total = graph.sum(-1, keepdim=True)
    return graph / torch.where(total == 0, torch.ones_like(total), total)


def without_sink(
    graph: Float[Tensor, "*batch query key"], sink: int = 0
) -> Float[Tensor, "*batch query key"]:
    """Remove the column of one token and give its weight back to the rest of each row.

    Args:
        graph: weights, nonnegative.
        sink: the token that draws attention whatever it says; the first by default.

    Returns:
        Rows with sum 1; a row that held nothing but the sink is 0.
    """
    kept = graph.clone()
    kept[..., sink] = 0
    total = kept.sum(-1, keepdim=True)
    return kept.div_(total.masked_fill_(total == 0, 1.0))


def uniform_graph(graph: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """Spread each row evenly over the keys it reaches, whatever the mask was (Theory §4).

    Args:
        graph: weights.

    Returns:
        Rows with sum 1, equal on the edges that the graph has; an empty row stays 0.
    """
    return normalise_rows((graph != 0).to(graph.dtype))
