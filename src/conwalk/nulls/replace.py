"""One layer with another kernel or other head maps, and what it would then put out."""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from conwalk.connection import ConnectionWalk, HeadTransports
from conwalk.metrics import LayerData


def with_attention(data: LayerData, attention: Float[Tensor, "head query key"]) -> LayerData:
    """Give the layer other attention weights; everything else of it is kept.

    Args:
        data: one layer of one prompt, or a block of its query rows.
        attention: the weights to apply.

    Returns:
        The layer as it would be, its output computed anew; it has no scores.
    """
    return _changed(data, attention, data.walk.transports)


def with_transports(data: LayerData, transports: HeadTransports) -> LayerData:
    """Give the layer other head maps; everything else of it is kept.

    Args:
        data: one layer of one prompt, or a block of its query rows.
        transports: the maps to apply, of the same shapes.

    Returns:
        The layer as it would be, its output computed anew.
    """
    return replace(_changed(data, data.walk.attention, transports), scores=data.scores)


def _changed(data: LayerData, attention: Tensor, transports: HeadTransports) -> LayerData:
    walk = ConnectionWalk.from_transports(
        attention,
        transports,
        data.walk.b_O,
        value_scale=data.walk.value_scale,
        output_gate=data.walk.output_gate,
    )
    return replace(data, walk=walk, output=walk(data.value_input), scores=None)
