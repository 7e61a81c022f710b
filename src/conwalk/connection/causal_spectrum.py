"""The exact spectrum of a causal walk, token by token, from small matrices (Theory §2).

A causal walk is block triangular, so its eigenvalues are those of its diagonal blocks
Σ_h A[h,i,i] M[h]. A block maps through the value heads, so the nonzero ones are those of the
much smaller product taken in the other order.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from conwalk.connection.connection_walk import ConnectionWalk
from conwalk.errors import SelectionError, ShapeError

_SQUARINGS = 5
_BATCH = 16


@dataclass(frozen=True, eq=False)
class CausalSpectrum:
    """Every eigenvalue of a causal walk.

    Attributes:
        values: eigenvalues of the small matrix of each token, complex128.
        zeros: how many more eigenvalues each token has, all 0.
    """

    values: Complex[Tensor, "token core"]
    zeros: int

    @property
    def padded(self) -> Complex[Tensor, "token width"]:
        """All eigenvalues of each diagonal block, zeros written out."""
        return pad(self.values, (0, self.zeros))

    @property
    def radii(self) -> Float[Tensor, " token"]:
        """Spectral radius of each diagonal block."""
        return self.values.abs().amax(-1)


@dataclass(frozen=True, eq=False)
class LeadingEigenvalues:
    """The eigenvalues of a causal walk of largest modulus.

    Attributes:
        values: by descending modulus, complex128, with multiplicity.
        tokens: the token in whose diagonal block each lies.
    """

    values: Complex[Tensor, " count"]
    tokens: Int[Tensor, " count"]


class DiagonalCores:
    """For each token a small matrix with the nonzero eigenvalues of its diagonal block.

    With a shared value head the block is W_V (width × kv_head·value) times the summed outputs
    of its group (kv_head·value × width); the core is the product in the other order, or the
    block itself where that is smaller. Computed in float64.

    Args:
        walk: a causal walk; with value scale or output gate, where it has them.

    Raises:
        ShapeError: the walk is not causal, or does not map a space to itself.
    """

    def __init__(self, walk: ConnectionWalk) -> None:
        """Multiply output by value maps, once for all tokens."""
        if not (walk.is_square and walk.is_causal):
            raise ShapeError(
                f"{walk!r} is not causal: only a causal walk has the spectrum of its diagonal "
                "blocks; use operators.krylov.eigenpairs"
            )
        transports = walk.transports.to(torch.float64)
        self.width = transports.width_in
        self.size = min(self.width, transports.n_kv_heads * transports.value_width)
        self._n_kv_heads = transports.n_kv_heads
        self._values = transports.value_columns
        self._rows = transports.output_rows
        if self.size < self.width:
            self._rows = self._rows @ self._values
        self._factors = _diagonal(walk).expand(-1, -1, transports.value_width)

    def __len__(self) -> int:
        """Count the tokens."""
        return len(self._factors)

    def __getitem__(self, token: int) -> Float[Tensor, "core core"]:
        """Give the core of one token."""
        scaled = self._rows * self._factors[token].reshape(-1, 1)
        grouped = scaled.view(self._n_kv_heads, -1, self._factors.shape[-1], scaled.shape[-1])
        small = grouped.sum(1).flatten(0, 1)
        return small if self.size < self.width else self._values @ small


def causal_spectrum(walk: ConnectionWalk) -> CausalSpectrum:
    """Compute every eigenvalue of a causal walk (Theory §2).

    Args:
        walk: a causal walk.

    Returns:
        min(width, kv_head·value) eigenvalues a token, and the number of further zeros.

    Raises:
        ShapeError: the walk is not causal, or does not map a space to itself.
    """
    cores = DiagonalCores(walk)
    found = [
        torch.linalg.eigvals(torch.stack([cores[token] for token in tokens.tolist()]))
        for tokens in torch.arange(len(cores)).split(_BATCH)
    ]
    return CausalSpectrum(torch.cat(found), cores.width - cores.size)


def causal_leading(walk: ConnectionWalk, count: int = 1) -> LeadingEigenvalues:
    """Compute the eigenvalues of largest modulus of a causal walk, exactly.

    Tokens are taken by descending norm of their block; one is solved only if no bound
    ‖C^m‖^(1/m) on its radius, m = 1, 2, 4, ..., falls below what has been found.

    Args:
        walk: a causal walk.
        count: how many, from 1 to token·width.

    Returns:
        The leading ``count`` eigenvalues of the whole walk, each with its token.

    Raises:
        SelectionError: the walk has not so many eigenvalues.
        ShapeError: the walk is not causal, or does not map a space to itself.
    """
    cores = DiagonalCores(walk)
    if not 1 <= count <= len(cores) * cores.width:
        raise SelectionError(
            f"count {count} is not possible: the walk has {len(cores) * cores.width} eigenvalues"
        )
    norms = torch.stack([torch.linalg.matrix_norm(cores[i]) for i in range(len(cores))])
    values = cores[0].new_zeros(count, dtype=torch.complex128)
    tokens = torch.zeros(count, dtype=torch.int64, device=values.device)
    for token in norms.argsort(descending=True).tolist():
        least = float(values[-1].abs())
        if norms[token] <= least and least > 0:
            break
        if not _may_exceed(cores[token], least):
            continue
        joined = torch.cat([values, torch.linalg.eigvals(cores[token])])
        places = torch.cat([tokens, tokens.new_full((cores.size,), token)])
        order = joined.abs().argsort(descending=True, stable=True)[:count]
        values, tokens = joined[order], places[order]
    return LeadingEigenvalues(values, tokens)


def _may_exceed(core: Float[Tensor, "core core"], bound: float) -> bool:
    """Say whether an eigenvalue may be larger than a bound, from norms of powers."""
    if bound == 0:
        return True
    power = core / bound
    for _ in range(_SQUARINGS):
        size = torch.linalg.matrix_norm(power)
        if size <= 1:
            return False
        power = power @ power
    return bool(torch.linalg.matrix_norm(power) > 1)


def _diagonal(walk: ConnectionWalk) -> Float[Tensor, "token head value"]:
    """Give the factors of each head at each token: A[h,i,i], with scale and gate if any."""
    factors = walk.attention.diagonal(dim1=1, dim2=2).mT[..., None].to(torch.float64)
    if walk.value_scale is not None:
        factors = factors * walk.value_scale.mT[..., None]
    return factors if walk.output_gate is None else factors * walk.output_gate.transpose(0, 1)
