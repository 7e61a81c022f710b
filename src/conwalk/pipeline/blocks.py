"""What the blocks of a layer leave behind, in memory that is taken once."""

from torch import Tensor


class Joined:
    """Arrays over all query rows of a layer, filled block by block.

    Each is taken whole when its first block comes. Parts kept until the end, however small, would
    lie between the large blocks and keep the allocator from using their room again; and a part
    that is a view of a block would keep all of that block.

    Args:
        n_rows: query rows in all.
    """

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self._arrays: dict[str, dict[str, Tensor]] = {}

    def put(self, owner: str, name: str, part: Tensor, first: int, axis: int = -1) -> None:
        """Copy some rows to their place.

        Args:
            owner: whose array it is.
            name: of the array.
            part: the rows.
            first: index of the first of them.
            axis: the query axis.
        """
        arrays = self._arrays.setdefault(owner, {})
        if name not in arrays:
            shape = list(part.shape)
            shape[axis] = self._n_rows
            arrays[name] = part.new_empty(shape)
        arrays[name].narrow(axis, first, part.shape[axis]).copy_(part)

    def of(self, owner: str) -> dict[str, Tensor]:
        """Give all arrays of an owner, by name."""
        return self._arrays[owner]
