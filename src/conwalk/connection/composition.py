"""How much of what one head writes another head can read (Theory §3)."""

from jaxtyping import Float, Int
from torch import Tensor

from conwalk.connection.subspaces import principal_bases
from conwalk.connection.transport import HeadTransports
from conwalk.errors import ShapeError


def composition(writers: HeadTransports, readers: HeadTransports) -> Float[Tensor, "writer reader"]:
    """Compute the share of each writer's output subspace inside each reader's input subspace.

    Args:
        writers: the maps of the heads that write.
        readers: the maps of the heads that read, of the same layer or of a later one.

    Returns:
        ``‖UᵀV‖_F² / k`` in [0, 1], U the outputs of the writer and V the inputs of the reader;
        the rank of the writer stands for k where it is lower. k/d by chance. NaN for a writer
        that writes nothing. Theory §3.

    Raises:
        ShapeError: the readers do not read vectors of the width that the writers write.
    """
    if writers.width_out != readers.width_in:
        raise ShapeError(
            f"the writers write width {writers.width_out} and the readers read width "
            f"{readers.width_in}: compose heads that share one residual stream"
        )
    written = principal_bases(writers)
    read = written if readers is writers else principal_bases(readers)
    if written.is_full and read.is_full:
        # then the bases of the factors do, and heads that share a value map read alike
        shares = shared_subspace(written.output, read.value, written.rank)
        return shares.repeat_interleave(read.group, 1)
    return shared_subspace(written.outputs, read.inputs, written.rank)


def shared_subspace(
    outputs: Float[Tensor, "writer width direction"],
    inputs: Float[Tensor, "reader width direction_in"],
    rank: Int[Tensor, " writer"],
) -> Float[Tensor, "writer reader"]:
    """Compute ‖UᵀV‖_F² over the rank of U for all pairs of bases.

    Args:
        outputs: orthonormal columns U; missing directions are 0.
        inputs: orthonormal columns V; missing directions are 0.
        rank: how many columns of U there are.

    Returns:
        Shares in [0, 1]; NaN where the rank is 0. Theory §3.
    """
    columns = inputs.transpose(0, 1).flatten(1)
    products = outputs.mT @ columns
    overlap = products.unflatten(-1, (len(inputs), -1)).square().sum((1, 3))
    share = overlap / rank.to(overlap.dtype)[:, None]
    return share.clamp(max=1.0)


def composition_by_chance(width: int, value_width: int) -> float:
    """Give the expected share of a random subspace inside another: k/d.

    Args:
        width: d.
        value_width: k.

    Returns:
        ``min(k, d) / d``. Theory §3.
    """
    return min(value_width, width) / width
