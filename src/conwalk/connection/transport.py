"""What each head does to a vector: M[h] = W_V[h] W_O[h], kept as its two factors (Theory §3)."""

from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from conwalk.connection import grams
from conwalk.connection.cards import transports_card
from conwalk.connection.selection import HeadSelector, resolve_heads, take
from conwalk.errors import ShapeError
from conwalk.operators.fields import (
    Array,
    as_tensor,
    require_alike,
    require_axes,
    require_shape,
    working_dtype,
)


class HeadTransports:
    """The maps of the heads of one layer, x -> x M[h] + c[h], in factored form.

    Query head ``h`` reads value head ``h // group``. Statistics of half precision weights are
    computed and given in float32.

    Args:
        W_V: value maps (kv_head, width_in, value), acting on row vectors from the right.
        W_O: output maps (head, value, width_out).
        b_V: value biases (kv_head, value), or None.

    Raises:
        ShapeError: shapes, dtypes or devices do not fit together, or NaN or infinite numbers.
    """

    def __init__(self, W_V: Array, W_O: Array, b_V: Array | None = None) -> None:
        """Check the factors and keep them, without a copy."""
        value, output = as_tensor("W_V", W_V), as_tensor("W_O", W_O)
        bias = None if b_V is None else as_tensor("b_V", b_V)
        _require_factors(value, output, bias)
        self._store(value, output, bias)

    def _store(self, W_V: Tensor, W_O: Tensor, b_V: Tensor | None) -> None:
        self.W_V = W_V
        self.W_O = W_O
        self.b_V = b_V

    @classmethod
    def _trusted(cls, W_V: Tensor, W_O: Tensor, b_V: Tensor | None) -> "HeadTransports":
        """Make transports of factors that have been checked before."""
        transports = cls.__new__(cls)
        transports._store(W_V, W_O, b_V)
        return transports

    @property
    def n_heads(self) -> int:
        """Number of query heads."""
        return self.W_O.shape[0]

    @property
    def n_kv_heads(self) -> int:
        """Number of value heads."""
        return self.W_V.shape[0]

    @property
    def group(self) -> int:
        """Query heads per value head."""
        return self.n_heads // self.n_kv_heads

    @property
    def width_in(self) -> int:
        """Width of the vectors that the value maps read."""
        return self.W_V.shape[1]

    @property
    def width_out(self) -> int:
        """Width of the vectors that the output maps write."""
        return self.W_O.shape[2]

    @property
    def value_width(self) -> int:
        """Width k of a value; the rank of M[h] is at most k."""
        return self.W_O.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the factors."""
        return self.W_O.dtype

    @property
    def device(self) -> torch.device:
        """Device of the factors."""
        return self.W_O.device

    def __repr__(self) -> str:
        """Name the sizes."""
        return (
            f"HeadTransports({self.n_heads} heads, {self.n_kv_heads} value heads, "
            f"{self.width_in} -> {self.value_width} -> {self.width_out}, {self.dtype})"
        )

    def _repr_html_(self) -> str:
        """Describe them to a notebook."""
        return transports_card(self)

    def to(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> "HeadTransports":
        """Move to another dtype or device; itself if nothing changes.

        Args:
            dtype: floating dtype, or None to keep it.
            device: device, or None to keep it.

        Returns:
            The same transports there.
        """
        kind = self.dtype if dtype is None else dtype
        place = self.device if device is None else torch.device(device)
        if (kind, place) == (self.dtype, self.device):
            return self
        bias = None if self.b_V is None else self.b_V.to(place, kind)
        return self._trusted(self.W_V.to(place, kind), self.W_O.to(place, kind), bias)

    def value_heads(self) -> Float[Tensor, "head width_in value"]:
        """Give W_V of every query head.

        Returns:
            W_V[h // group] at h; W_V itself where no value head is shared.
        """
        return self._spread(self.W_V)

    def value_biases(self) -> Float[Tensor, "head value"]:
        """Give b_V of every query head; zeros where there is no bias.

        Returns:
            b_V[h // group] at h.
        """
        if self.b_V is None:
            return self.W_O.new_zeros(self.n_heads, self.value_width)
        return self._spread(self.b_V)

    def _spread(self, per_value_head: Tensor) -> Tensor:
        if self.group == 1:
            return per_value_head
        return per_value_head.repeat_interleave(self.group, dim=0)

    @cached_property
    def value_columns(self) -> Float[Tensor, "width_in columns"]:
        """All value maps side by side: x @ value_columns holds the values of x, head by head."""
        return self.W_V.transpose(0, 1).flatten(1)

    @cached_property
    def output_rows(self) -> Float[Tensor, "rows width_out"]:
        """All output maps below each other: mixed values side by side @ output_rows is Y."""
        return self.W_O.flatten(0, 1)

    @cached_property
    def output_squares(self) -> Float[Tensor, "head value value"]:
        """W_O[h] W_O[h]ᵀ, B^O_hh of Theory §3: a value v is written with length² v B vᵀ."""
        output = self.W_O.to(working_dtype(self.dtype))
        return output @ output.mT

    def affine(self) -> Float[Tensor, "head width_out"] | None:
        """Give what the value bias adds to the output of a head (Theory §0).

        Returns:
            c[h] = b_V[h // group] W_O[h], or None without a value bias.
        """
        if self.b_V is None:
            return None
        return (self.value_biases()[:, None] @ self.W_O).squeeze(1)

    def matrix(self, head: int) -> Float[Tensor, "width_in width_out"]:
        """Write out the map of one head.

        Args:
            head: head number from 0; negative numbers count from the end.

        Returns:
            M[h] = W_V[h // group] W_O[h].

        Raises:
            SelectionError: no such head.
        """
        (index,) = resolve_heads(head, self.n_heads)
        return self.W_V[index // self.group] @ self.W_O[index]

    @cached_property
    def _cores(self) -> Float[Tensor, "head rank_in rank_out"]:
        """M[h] up to an isometry on either side, from QR of both factors."""
        precision = working_dtype(self.dtype)
        value = torch.linalg.qr(self.W_V.to(precision), mode="r").R
        output = torch.linalg.qr(self.W_O.to(precision).mT, mode="r").R
        return self._spread(value) @ output.mT

    @cached_property
    def _singular_values(self) -> Float[Tensor, "head value"]:
        found = torch.linalg.svdvals(self._cores)
        return pad(found, (0, self.value_width - found.shape[1]))

    def singular_values(self) -> Float[Tensor, "head value"]:
        """Give the singular values of each M[h], through QR of both factors and a k×k SVD.

        Returns:
            Descending along the last axis, k per head; where k exceeds a width, the ones that
            cannot exist are 0 (Theory §3).
        """
        return self._singular_values

    def norms(self) -> Float[Tensor, " head"]:
        """Give the Frobenius norm of each M[h].

        Returns:
            ‖M[h]‖_F >= 0.
        """
        return torch.linalg.matrix_norm(self._cores)

    @cached_property
    def _products(self) -> tuple[Tensor, Tensor]:
        precision = working_dtype(self.dtype)
        value = grams.value_products(self.W_V.to(precision))
        return value, grams.output_products(self.W_O.to(precision))

    @cached_property
    def _gram(self) -> Float[Tensor, "head head"]:
        return grams.gram(*self._products)

    def gram(self) -> Float[Tensor, "head head"]:
        """Give all inner products of head maps (Theory §3); computed once.

        Returns:
            G[h,g] = <M[h], M[g]>_F.
        """
        return self._gram

    @cached_property
    def _quartic(self) -> Float[Tensor, "head head head head"]:
        return grams.quartic(*self._products)

    def quartic(self) -> Float[Tensor, "head head head head"]:
        """Give all fourfold traces of head maps (Theory §3); computed once.

        Returns:
            K[h,g,p,q] = tr(M[h]ᵀ M[g] M[p]ᵀ M[q]).
        """
        return self._quartic

    def select(self, heads: HeadSelector) -> "HeadTransports":
        """Keep some query heads, with the value heads that they read.

        Args:
            heads: a head, a slice or an iterable of heads; negative numbers count from the end.

        Returns:
            Transports of these heads in this order.

        Raises:
            SelectionError: a head that does not exist, or no head at all.
        """
        chosen = resolve_heads(heads, self.n_heads)
        sources = torch.tensor([head // self.group for head in chosen])
        runs, lengths = torch.unique_consecutive(sources, return_counts=True)
        even = bool((lengths == lengths[0]).all())
        values = (runs if even else sources).tolist()
        bias = None if self.b_V is None else take(self.b_V, values)
        return self._trusted(take(self.W_V, values), take(self.W_O, chosen), bias)

    def adjoint(self) -> "HeadTransports":
        """Give the transports of the Euclidean adjoint, M[h]ᵀ; linear, so without a bias.

        Returns:
            Transports with W_V = W_O[h]ᵀ and W_O = W_V[h // group]ᵀ.
        """
        return self._trusted(self.W_O.mT, self.value_heads().mT, None)


def _require_factors(W_V: Tensor, W_O: Tensor, b_V: Tensor | None) -> None:
    """Refuse factors that do not fit together."""
    require_axes("W_V", W_V, "kv_head width_in value")
    require_axes("W_O", W_O, "head value width_out")
    require_alike("W_O", W_O, W_V.dtype, W_V.device)
    n_kv_heads, _, value = W_V.shape
    n_heads, _, width_out = W_O.shape
    require_shape("W_O", W_O, (n_heads, value, width_out), f"W_V of value width {value}")
    if n_heads % n_kv_heads:
        raise ShapeError(
            f"W_O has {n_heads} heads and W_V {n_kv_heads}: the heads must divide evenly among "
            "the value heads"
        )
    if b_V is not None:
        require_axes("b_V", b_V, "kv_head value")
        require_shape("b_V", b_V, (n_kv_heads, value), "W_V")
        require_alike("b_V", b_V, W_V.dtype, W_V.device)
