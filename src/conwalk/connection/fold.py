"""Head maps with the gain of the norm before them folded in (Theory §0, §3)."""

from jaxtyping import Float
from torch import Tensor

from conwalk.connection.transport import HeadTransports
from conwalk.operators.fields import require_alike, require_axes, require_shape


def fold(transports: HeadTransports, gain: Float[Tensor, " width_in"]) -> HeadTransports:
    """Fold a norm's gain into the value maps: W_V becomes diag(gain) W_V.

    The folded maps act on what the norm puts out before its gain. A walk keeps the maps as
    they are; folded ones are another question about the weights, with a name of its own.

    Args:
        transports: the maps of the heads.
        gain: what the norm multiplies each channel by.

    Returns:
        The folded maps; the output maps are shared, not copied. Theory §0, §3.

    Raises:
        ShapeError: not one finite number of the same dtype per channel.
    """
    require_axes("gain", gain, "width_in")
    require_shape("gain", gain, (transports.width_in,), "W_V")
    require_alike("gain", gain, transports.dtype, transports.device)
    return HeadTransports(transports.W_V * gain[:, None], transports.W_O, transports.b_V)
