"""What a walk is made of: attention, head maps, and what scales or gates the values."""

from torch import Tensor

from conwalk.connection.transport import HeadTransports
from conwalk.operators.fields import (
    Array,
    as_tensor,
    require_alike,
    require_axes,
    require_shape,
)


class WalkParts:
    """The checked parts of a walk; ``ConnectionWalk`` says what each of them is."""

    attention: Tensor
    transports: HeadTransports
    b_O: Tensor | None
    value_scale: Tensor | None
    output_gate: Tensor | None

    def _keep(
        self,
        attention: Array,
        transports: HeadTransports,
        b_O: Array | None,
        value_scale: Array | None,
        output_gate: Array | None,
    ) -> None:
        """Check that the parts fit together, and keep them without a copy."""
        weights = as_tensor("attention", attention)
        require_axes("attention", weights, "head query key")
        n_heads, n_queries, n_keys = weights.shape
        value, out = transports.value_width, transports.width_out
        require_shape("attention", weights, (transports.n_heads, n_queries, n_keys), "W_O")
        require_alike("attention", weights, transports.dtype, transports.device)
        self.attention = weights
        self.transports = transports
        self.b_O = _optional("b_O", b_O, "width_out", (out,), weights)
        self.value_scale = _optional(
            "value_scale", value_scale, "head key", (n_heads, n_keys), weights
        )
        self.output_gate = _optional(
            "output_gate", output_gate, "head query value", (n_heads, n_queries, value), weights
        )

    @property
    def n_heads(self) -> int:
        """Number of heads."""
        return self.attention.shape[0]

    @property
    def n_queries(self) -> int:
        """Number of receivers."""
        return self.attention.shape[1]

    @property
    def n_keys(self) -> int:
        """Number of senders."""
        return self.attention.shape[2]

    @property
    def is_causal(self) -> bool:
        """Whether receivers are senders and none receives from a later one."""
        return self.n_queries == self.n_keys and not bool(self.attention.triu(1).any())


def _optional(
    name: str, array: Array | None, axes: str, shape: tuple[int, ...], attention: Tensor
) -> Tensor | None:
    """Check an input that may be missing."""
    if array is None:
        return None
    tensor = as_tensor(name, array)
    require_axes(name, tensor, axes)
    require_shape(name, tensor, shape, "the walk")
    require_alike(name, tensor, attention.dtype, attention.device)
    return tensor
