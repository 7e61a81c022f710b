"""Fields, what operators act on: one vector at each token, shape (..., token, width)."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.errors import ShapeError

Array = Tensor | np.ndarray
FieldShape = tuple[int, int]


def as_tensor(name: str, array: object) -> Tensor:
    """Give an array as a tensor, without a copy where numpy allows it.

    Args:
        name: what the array is, for the message.
        array: a torch tensor or a numpy array.

    Returns:
        The same numbers as a tensor of the same shape and dtype.

    Raises:
        ShapeError: not an array, or numbers that torch has no dtype for.
    """
    if isinstance(array, Tensor):
        return array
    if not isinstance(array, np.ndarray):
        kind = type(array).__name__
        raise ShapeError(f"{name} is a {kind}: give a torch tensor or a numpy array")
    try:
        return torch.from_numpy(np.require(array, requirements=["C", "W"]))
    except (TypeError, ValueError) as error:
        raise ShapeError(
            f"{name} has dtype {array.dtype}, which torch cannot read: convert it to float32"
        ) from error


def require_axes(name: str, tensor: Tensor, axes: str) -> None:
    """Refuse a tensor that cannot stand for finite numbers along the named axes.

    Args:
        name: what the tensor is, for the message.
        tensor: any tensor.
        axes: the names of its axes, separated by blanks, such as ``"head query key"``.

    Raises:
        ShapeError: wrong number of axes, an empty axis, not floating, NaN or infinite.
    """
    wanted = "(" + ", ".join(axes.split()) + ")"
    if tensor.ndim != len(axes.split()) or 0 in tensor.shape:
        raise ShapeError(f"{name} has shape {tuple(tensor.shape)}: give {wanted}, none of them 0")
    if not tensor.is_floating_point():
        raise ShapeError(f"{name} has dtype {tensor.dtype}: give floating point numbers")
    if not _is_finite(tensor):
        raise ShapeError(f"{name} holds NaN or infinite numbers: mend or mask them first")


def _is_finite(tensor: Tensor) -> bool:
    """Look at the sum first: it is finite in all but rare cases and needs no mask."""
    return bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())


def require_shape(name: str, tensor: Tensor, shape: tuple[int, ...], reason: str) -> None:
    """Refuse a tensor of another shape than the rest of the input fixes.

    Args:
        name: what the tensor is, for the message.
        tensor: any tensor.
        shape: the shape that fits.
        reason: where that shape comes from, for the message.

    Raises:
        ShapeError: the shapes differ.
    """
    if tuple(tensor.shape) != shape:
        raise ShapeError(f"{name} has shape {tuple(tensor.shape)}: {reason} needs {shape}")


def require_alike(name: str, tensor: Tensor, dtype: torch.dtype, device: torch.device) -> None:
    """Refuse a tensor of another dtype or on another device than the rest of the input.

    Args:
        name: what the tensor is, for the message.
        tensor: any tensor.
        dtype: the dtype of the rest.
        device: the device of the rest.

    Raises:
        ShapeError: dtype or device differs.
    """
    if tensor.dtype != dtype or tensor.device != device:
        raise ShapeError(
            f"{name} is {tensor.dtype} on {tensor.device}, the rest is {dtype} on {device}: "
            "convert one of them with .to()"
        )


def require_field(
    name: str, field: Array, shape: FieldShape, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "*batch token width"]:
    """Give ``field`` as a tensor that an operator of this domain can be applied to.

    Args:
        name: what the field is, for the message.
        field: (..., token, width), torch or numpy.
        shape: the (token, width) that fits.
        dtype: the dtype of the operator.
        device: the device of the operator.

    Returns:
        The field as a tensor.

    Raises:
        ShapeError: shape, dtype or device does not fit.
    """
    tensor = as_tensor(name, field)
    if tuple(tensor.shape[-2:]) != shape:
        raise ShapeError(
            f"{name} has shape {tuple(tensor.shape)}: the operator acts on fields (..., "
            f"{shape[0]}, {shape[1]})"
        )
    require_alike(name, tensor, dtype, device)
    return tensor


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """Name the dtype to compute in: float64 stays float64, all others become float32.

    Factorisations do not exist in half precision, and fourth powers overflow there.
    """
    return torch.float64 if dtype == torch.float64 else torch.float32
