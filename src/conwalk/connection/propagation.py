"""One step of a walk in factored form: values, mixing, output; never a matrix per edge."""

from jaxtyping import Float
from torch import Tensor

from conwalk.connection.transport import HeadTransports


def propagate(
    x: Float[Tensor, "batch key width_in"],
    attention: Float[Tensor, "head query key"],
    transports: HeadTransports,
    value_scale: Float[Tensor, "head key"] | None,
    output_gate: Float[Tensor, "head query value"] | None,
) -> Float[Tensor, "batch query width_out"]:
    """Compute Σ_h Σ_j A[h,i,j] s[h,j] (x_j W_V[h] ⊙ g[h,i]) W_O[h].

    Beside its input it holds O(batch · token · head · value) numbers.

    Args:
        x: a batch of fields.
        attention: weights as applied to the values.
        transports: the maps of the heads.
        value_scale: s, multiplies the values at the sender; None for 1.
        output_gate: g, multiplies the mixed values at the receiver; None for 1.

    Returns:
        The linear part of the attention sublayer (Theory §0).
    """
    values = (x @ transports.value_columns).unflatten(-1, (transports.n_kv_heads, -1))
    mixed = mix(values.permute(2, 1, 0, 3), attention, value_scale)
    if output_gate is not None:
        mixed = mixed * output_gate[:, :, None]
    return mixed.permute(2, 1, 0, 3).flatten(-2) @ transports.output_rows


def propagate_back(
    y: Float[Tensor, "batch query width_out"],
    attention: Float[Tensor, "head query key"],
    transports: HeadTransports,
    value_scale: Float[Tensor, "head key"] | None,
    output_gate: Float[Tensor, "head query value"] | None,
) -> Float[Tensor, "batch key width_in"]:
    """Apply the Euclidean adjoint of ``propagate``.

    Args:
        y: a batch of fields on the receivers.
        attention: weights as applied to the values.
        transports: the maps of the heads.
        value_scale: s, multiplies the values at the sender; None for 1.
        output_gate: g, multiplies the mixed values at the receiver; None for 1.

    Returns:
        A batch of fields on the senders.
    """
    pulled = (y @ transports.output_rows.mT).unflatten(-1, (transports.n_heads, -1))
    mixed = pulled.permute(2, 1, 0, 3)
    if output_gate is not None:
        mixed = mixed * output_gate[:, :, None]
    values = mix(mixed, attention.mT, None)
    if value_scale is not None:
        values = values * value_scale[:, :, None, None]
    shared = values.unflatten(0, (transports.n_kv_heads, -1)).sum(1)
    return shared.permute(2, 1, 0, 3).flatten(-2) @ transports.value_columns.mT


def mix(
    values: Float[Tensor, "kv_head key batch value"],
    attention: Float[Tensor, "head query key"],
    value_scale: Float[Tensor, "head key"] | None,
) -> Float[Tensor, "head query batch value"]:
    """Average the values at the receivers, each head with its own attention.

    The batch lies beside the value axis, so that the attention is never repeated over it.

    Args:
        values: the values of each value head.
        attention: weights as applied to the values.
        value_scale: multiplies the values at the sender, by query head; None for 1.

    Returns:
        The mixed values of each query head.
    """
    n_heads, n_queries, n_keys = attention.shape
    if value_scale is not None:
        grouped = value_scale.unflatten(0, (len(values), -1))
        values = (values[:, None] * grouped[..., None, None]).flatten(0, 1)
    stacked = attention.reshape(len(values), -1, n_keys) @ values.flatten(2)
    return stacked.view(n_heads, n_queries, *values.shape[2:])
