"""What head maps do to the lengths and angles of the vectors they are given (Theory §3)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from conwalk.connection.transport import HeadTransports
from conwalk.operators.fields import working_dtype


@dataclass(frozen=True, eq=False)
class Stretch:
    """Vectors before and after each head map, through their values and k×k Gram matrices.

    Attributes:
        x: the vectors.
        values: x W_V of each value head, or of each head where a scale tells them apart.
        output_gram: W_O W_Oᵀ of each head, sorted by the values that it reads.
    """

    x: Float[Tensor, "token width_in"]
    values: Float[Tensor, "reader token value"]
    output_gram: Float[Tensor, "reader member value value"]

    @classmethod
    def of(
        cls,
        x: Float[Tensor, "token width_in"],
        transports: HeadTransports,
        value_scale: Float[Tensor, "head token"] | None = None,
    ) -> "Stretch":
        """Apply the value maps to vectors.

        Args:
            x: vectors that the value maps read.
            transports: the maps of the heads.
            value_scale: multiplies the value at each token, or None.

        Returns:
            All that is needed to compare x and x M[h]; no d×d matrix of a head and no
            ``(head, token, d)`` array is made. Theory §3.
        """
        precision = working_dtype(transports.dtype)
        x = x.to(precision)
        values = (x @ transports.value_columns.to(precision)).unflatten(
            -1, (transports.n_kv_heads, -1)
        )
        values, grams = values.transpose(0, 1), transports.output_squares
        if value_scale is None:
            return cls(x, values, grams.unflatten(0, (transports.n_kv_heads, -1)))
        spread = values.repeat_interleave(transports.group, 0)
        return cls(x, spread * value_scale.to(precision)[..., None], grams[:, None])

    def lengths(self) -> Float[Tensor, "head token"]:
        """‖x_j M[h]‖ of every vector."""
        moved = self.values[:, None] @ self.output_gram
        squares = (moved * self.values[:, None]).sum(-1)
        return squares.clamp(min=0.0).sqrt().flatten(0, 1)

    def ratios(self) -> Float[Tensor, "head token"]:
        """‖x_j M[h]‖ / ‖x_j‖ of every vector; NaN where ‖x_j‖ is 0."""
        norms = torch.linalg.vector_norm(self.x, dim=-1)
        return self.lengths() / torch.where(norms > 0, norms, torch.nan)

    def variation(self) -> Float[Tensor, " head"]:
        """Coefficient of variation of the ratios over the vectors that are not 0.

        Returns:
            Standard deviation over mean, >= 0; 0 where all lengths change alike, NaN where
            nothing comes through. Theory §3.
        """
        ratios = self.ratios()
        mean = ratios.nanmean(-1)
        deviation = (ratios - mean[:, None]).square().nanmean(-1).sqrt()
        return deviation / torch.where(mean > 0, mean, torch.nan)

    def similarity(self) -> Float[Tensor, " head"]:
        """Uncentred linear CKA of X and X M[h]: tr(GC²) / √(tr(GCGC) tr C²).

        Returns:
            Numbers in [0, 1]; 1 where all inner products change alike, NaN where X or X M[h]
            is 0. Theory §3.
        """
        cross, before = self._cross_gram()
        mixed = (self.output_gram * cross[:, None]).sum((-2, -1))
        through = self.output_gram @ (self.values.mT @ self.values)[:, None]
        after = (through * through.mT).sum((-2, -1)).clamp(min=0.0).sqrt()
        size = after * before
        return (mixed / torch.where(size > 0, size, torch.nan)).clamp(0.0, 1.0).flatten()

    def _cross_gram(self) -> tuple[Float[Tensor, "reader value value"], Float[Tensor, ""]]:
        """Zᵀ XXᵀ Z for the values Z, and ‖XXᵀ‖_F, by the smaller of XXᵀ and XᵀX."""
        tokens, width = self.x.shape
        if tokens <= width:
            gram = self.x @ self.x.mT
            return self.values.mT @ (gram @ self.values), torch.linalg.matrix_norm(gram)
        across = self.x.mT @ self.values
        return across.mT @ across, torch.linalg.matrix_norm(self.x.mT @ self.x)
