"""The energy ledger: what keeps a layer from being a connection Laplacian, in energy (Theory §2).

The scale s of the transports is the one closest to making them isometries, which needs no
tokens: so each defect is 0 where its condition holds, whatever the tokens are.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from conwalk import dims
from conwalk.connection import ConnectionWalk
from conwalk.connection.compatibility import common_scale, largest_rank, square_sums
from conwalk.connection.ledger import (
    Ledger,
    alignment,
    balance,
    fitted_inverse_scale,
    token_balance,
)
from conwalk.connection.row_energies import RowEnergies, has_energies, head_energies, row_energies
from conwalk.connection.stationary import stationary_law
from conwalk.metrics.metric import HEAD, LAYER, Arrays, LayerData, Metric, Quantity

_TOKEN = (dims.TOKEN,)

_TERMS = (
    ("total", "⟨x, (I − 𝒲/s)x⟩", (None, None), "energy of the generator"),
    ("dirichlet", "½ Σ W_ij ‖x_i − x_j T_ij/s‖²", (0.0, None), "Dirichlet energy"),
    ("stationarity", "½ Σ (μ_i − ν_i) ‖x_i‖²", (None, None), "stationarity defect"),
    (
        "compatibility", "½ Σ W_ij (‖x_j‖² − ‖x_j T_ij/s‖²)", (None, None),
        "metric-compatibility defect",
    ),
    ("leak", "½ Σ μ_i (1 − r_i) ‖x_i‖²", (None, 0.5), "what leaks out of the rows"),
    ("residual", "|total − the four terms|", (0.0, None), "rounding of the identity"),
)  # fmt: skip


def _quantities(prefix: str, axes: tuple[str, ...], words: str) -> tuple[Quantity, ...]:
    return tuple(
        Quantity(
            prefix + name, symbol + " / Σ μ_i ‖x_i‖²", axes, "1",
            # one token may hold more than the mean, which all are measured by
            (bounds[0], None) if axes == _TOKEN else bounds,
            f"{meaning}{words}", "Theory §2",
        )
        for name, symbol, bounds, meaning in _TERMS
    )  # fmt: skip


def _named(prefix: str, ledger: Ledger) -> Arrays:
    return {prefix + name: value for name, value in ledger._asdict().items()}


def _rows(data: LayerData) -> Arrays:
    return _sums(data, row_energies, square_sums, (data.walk.n_queries,), largest_rank(data.walk))


def _head_rows(data: LayerData) -> Arrays:
    def squares(walk: ConnectionWalk) -> Tensor:
        weights = walk.attention
        if walk.value_scale is not None:
            weights = weights * walk.value_scale.square()[:, None]
        return (weights.sum(-1) * walk.transports.norms().square()[:, None]).double()

    transports = data.walk.transports
    rank = min(transports.width_in, transports.width_out, transports.value_width)
    return _sums(data, head_energies, squares, data.walk.attention.shape[:2], rank)


def _sums(
    data: LayerData,
    energies: Callable[[ConnectionWalk, Tensor, int], RowEnergies],
    squares: Callable[[ConnectionWalk], Tensor],
    shape: tuple[int, ...],
    rank: int,
) -> Arrays:
    """Collect what the ledger needs of some rows; NaN where it is not defined."""
    walk, x = data.walk, data.value_input
    missing = torch.full(shape, torch.nan, dtype=torch.float64, device=walk.device)
    if has_energies(walk, x, data.first):
        found = {**energies(walk, x, data.first)._asdict(), "squares": squares(walk)}
    else:
        found = dict.fromkeys((*RowEnergies._fields, "squares"), missing)
    ones = torch.ones_like(missing)
    return {**found, "keys": walk.n_keys * ones, "rank": rank * ones}


def _energies(rows: Arrays) -> RowEnergies:
    """Give the sums of a whole layer; NaN where the queries are not the keys."""
    square = (rows["keys"] == rows["own"].shape[-1]).all()
    undefined = torch.where(square, 0.0, torch.nan)
    return RowEnergies(*(rows[name] + undefined for name in RowEnergies._fields))


def _scale(rows: Arrays) -> Tensor:
    return common_scale(rows["mass"], rows["squares"], int(rows["rank"].flatten()[0]))


def _inverse(scale: Tensor) -> Tensor:
    """Invert a scale; where nothing is carried any scale will do."""
    return torch.where(scale == 0, torch.zeros_like(scale), 1 / scale)


def _finish(rows: Arrays) -> Arrays:
    energies, scale = _energies(rows), _scale(rows)
    return {
        **_named("energy_", balance(energies, _inverse(scale))),
        "energy_scale": scale,
        "token_alignment": alignment(energies),
    }


def _finish_fitted(rows: Arrays) -> Arrays:
    energies = _energies(rows)
    inverse = fitted_inverse_scale(energies)
    return {
        **_named("fitted_energy_", balance(energies, inverse)),
        "fitted_inverse_scale": inverse,
    }


def _finish_tokens(rows: Arrays) -> Arrays:
    ledger = token_balance(_energies(rows), _inverse(_scale(rows)))
    n = ledger.total.shape[-1]
    return {f"token_energy_{name}": n * term for name, term in ledger._asdict().items()}


def _finish_heads(rows: Arrays) -> Arrays:
    energies, scale = _energies(rows), _scale(rows)
    return {
        **_named("head_energy_", balance(energies, _inverse(scale))),
        "head_alignment": alignment(energies),
    }


def _stationary(data: LayerData) -> Arrays:
    rows, matrix = _rows(data), data.walk.walk_matrix()
    # the sums of a walk that is not square are NaN whatever the weights
    law = stationary_law(matrix) if matrix.shape[0] == matrix.shape[1] else None
    return _named("stationary_energy_", balance(_energies(rows), _inverse(_scale(rows)), law))


METRIC = Metric(
    name="ledger",
    quantities=(
        *_quantities("energy_", LAYER, ", tokens weighted alike"),
        Quantity(
            "energy_scale", "s = √(ΣW‖T‖² / (R ΣW))", LAYER, "1", (0.0, None),
            "the scale of the transports in the ledger: the one closest to making them isometries",
            "Theory §2",
        ),
        Quantity(
            "token_alignment", "ΣW x_i·x_jT_ij / √(ΣW‖x_i‖² ΣW‖x_jT_ij‖²)", LAYER, "1", (-1.0, 1.0),
            "cosine between tokens and what their edges carry to them; 1 for a section that the "
            "transports keep",
            "Theory §2", null="0 for transports that have nothing to do with the tokens",
        ),
    ),
    needs="rows",
    compute=_rows,
    finish=_finish,
    default=False,
)  # fmt: skip

FITTED = Metric(
    name="ledger_fitted",
    quantities=(
        *_quantities("fitted_energy_", LAYER, ", at the scale with the least Dirichlet energy"),
        Quantity(
            "fitted_inverse_scale", "1/s = ΣW x_i·x_jT_ij / ΣW‖x_jT_ij‖²", LAYER, "1", (None, None),
            "the inverse scale with the least Dirichlet energy; near 0 where tokens have little to "
            "do with what they receive",
            "Theory §2",
        ),
    ),
    needs="rows",
    compute=_rows,
    finish=_finish_fitted,
    default=False,
)  # fmt: skip

TOKENS = Metric(
    name="ledger_tokens",
    quantities=_quantities("token_energy_", _TOKEN, " of a receiver; their mean is the layer's"),
    needs="rows",
    compute=_rows,
    finish=_finish_tokens,
    default=False,
)

HEADS = Metric(
    name="ledger_heads",
    quantities=(
        *_quantities("head_energy_", HEAD, " of a head as a walk of its own"),
        Quantity(
            "head_alignment", "ΣA x_i·x_jM / √(ΣA‖x_i‖² ΣA‖x_jM‖²)", HEAD, "1", (-1.0, 1.0),
            "cosine between tokens and what a head carries to them",
            "Theory §2", null="0 for a map that has nothing to do with the tokens",
        ),
    ),
    needs="rows",
    compute=_head_rows,
    finish=_finish_heads,
    default=False,
)  # fmt: skip

STATIONARY = Metric(
    name="ledger_stationary",
    quantities=_quantities(
        "stationary_energy_", LAYER, ", tokens weighted by the stationary law of the walk"
    ),
    needs="heads",
    compute=_stationary,
    default=False,
)
