"""What a notebook shows of walks, generators and transports."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from conwalk.markup import card, picture

if TYPE_CHECKING:
    from conwalk.connection.connection_walk import ConnectionWalk
    from conwalk.connection.laplacian import ConnectionLaplacian
    from conwalk.connection.transport import HeadTransports

_PIXELS = 128
_WEIGHTS = 2**27
"""As many attention weights are looked at without keeping anybody waiting."""


def walk_card(walk: "ConnectionWalk") -> str:
    """Describe a walk: sizes, kind, row sums, and a picture of its walk matrix.

    Args:
        walk: any walk.

    Returns:
        HTML.
    """
    transports = walk.transports
    facts: dict[str, object] = {
        "tokens": f"{walk.n_queries} receive, {walk.n_keys} send",
        "heads": _heads(transports),
        "vectors": f"{transports.width_in} → {transports.value_width} → {transports.width_out}",
        "dtype": f"{walk.dtype}, {walk.device}",
        "kind": ", ".join(_kinds(walk)),
    }
    if walk.attention.numel() > _WEIGHTS or not walk.attention.numel():
        return card("ConnectionWalk", facts)
    matrix = walk.walk_matrix().detach().float()
    sums = matrix.sum(-1)
    low, high = f"{float(sums.min()):.6g}", f"{float(sums.max()):.6g}"
    facts["row sums"] = low if low == high else f"{low} to {high}"
    words = "walk matrix: from each token (row) to the tokens it attends to, square root of P"
    return card("ConnectionWalk", facts, picture(thumbnail(matrix).tolist(), words))


def laplacian_card(generator: "ConnectionLaplacian") -> str:
    """Describe a generator, and the walk that it is of.

    Args:
        generator: I − walk/s.

    Returns:
        HTML.
    """
    facts = {
        "generator": "I − walk / s",
        "s": f"{generator.scale:g}",
        "fields": " × ".join(map(str, generator.domain)),
    }
    shown = getattr(generator.walk, "_repr_html_", None)
    inner = shown() if shown else card(repr(generator.walk), {})
    return card("ConnectionLaplacian", facts, inner)


def transports_card(transports: "HeadTransports") -> str:
    """Describe head maps: sizes, and what their singular values are like.

    Args:
        transports: of one layer.

    Returns:
        HTML.
    """
    sigma = transports.singular_values().double()
    score = sigma.sum(-1) / (sigma.shape[-1] ** 0.5 * sigma.norm(dim=-1))
    return card(
        "HeadTransports",
        {
            "heads": _heads(transports),
            "vectors": f"{transports.width_in} → {transports.value_width} → {transports.width_out}",
            "bias": "none" if transports.b_V is None else "on the values",
            "dtype": f"{transports.dtype}, {transports.device}",
            "‖M_h‖": _spread(sigma.norm(dim=-1)),
            "isometry score ρ": _spread(score),
        },
    )


def thumbnail(matrix: Float[Tensor, "query key"]) -> Float[Tensor, "row column"]:
    """Make a matrix small and its weights visible beside a sink.

    Args:
        matrix: P.

    Returns:
        Square roots of the means over cells, over the largest; at most 128 × 128.
    """
    high, wide = (min(n, _PIXELS) for n in matrix.shape)
    small = adaptive_avg_pool2d(matrix[None].abs(), (high, wide))[0].sqrt()
    return small / small.max().clamp_min(torch.finfo(small.dtype).tiny)


def _heads(transports: "HeadTransports") -> str:
    shared = transports.n_kv_heads < transports.n_heads
    return f"{transports.n_heads}{f' on {transports.n_kv_heads} value heads' if shared else ''}"


def _kinds(walk: "ConnectionWalk") -> list[str]:
    attention = walk.attention
    if attention.numel() > _WEIGHTS or not attention.numel():
        return ["not looked at: too large"]
    square = walk.n_queries == walk.n_keys
    causal = square and not bool(attention.triu(1).any())
    kinds = [("causal" if causal else "to all tokens") if square else "from other tokens"]
    if bool((attention < 0).any()):
        kinds.append("signed weights")
    if walk.value_scale is not None:
        kinds.append("values scaled at the sender")
    if walk.output_gate is not None:
        kinds.append("gated at the receiver")
    return kinds


def _spread(values: Tensor) -> str:
    low, high = f"{float(values.min()):.4g}", f"{float(values.max()):.4g}"
    return low if low == high else f"{low} to {high}"
