"""Decoder tokens that walk to as many encoder tokens still walk to others, not among themselves."""

import numpy as np
import pytest
import torch
import xarray as xr

from conwalk.metrics import ALL
from conwalk.pipeline import analysis, analyze, verify
from family_build import build

SQUARE = {
    "input_ids": torch.tensor([[3, 9, 14, 21, 8]]),
    "decoder_input_ids": torch.tensor([[2, 7, 11, 4, 19]]),
}


def _cross(found: xr.Dataset) -> xr.Dataset:
    return found.isel(layer=[str(name).startswith("cross") for name in found.layer.values])


@pytest.fixture(scope="module")
def found() -> xr.Dataset:
    torch.manual_seed(0)
    return analyze(build("bart"), SQUARE, panel=ALL, details=True, null_draws=2)


def test_what_is_about_one_sequence_is_not_asked_of_two(found: xr.Dataset) -> None:
    cross = _cross(found)
    assert cross.sizes["layer"] == 2
    for metric in ALL:
        for quantity in metric.quantities if metric.within else ():
            assert np.isnan(cross[quantity.name].values).all(), quantity.name
    for name in ("spectral_radius", "walk_gap", "spectrum_real", "diffusion_map"):
        assert np.isnan(cross[name].values).all(), name


def test_what_is_about_any_walk_is(found: xr.Dataset) -> None:
    cross = _cross(found)
    for name in ("operator_norm", "rho", "edge_rank", "entropy", "walk_matrix", "edge_norm"):
        assert np.isfinite(cross[name].values).any(), name
    own = found.drop_sel(layer=cross.layer.values)
    for name in (
        "reach",
        "energy_total",
        "spectral_radius",
        "diffusion_map",
        "stationarity_defect",
    ):
        assert np.isfinite(own[name].values).any(), name


def test_nor_in_blocks_of_rows(found: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "BLOCK_ABOVE", 2)
    monkeypatch.setattr(analysis, "BLOCK_ROWS", 2)
    cross = _cross(analyze(build("bart"), SQUARE))
    assert np.isnan(cross["reach"].values).all()
    assert np.isnan(cross["stationarity_defect"].values).all()
    assert np.isfinite(cross["edge_rank"].values).all()


def test_reach_has_no_meaning_there() -> None:
    proof = verify(build("bart"), SQUARE)
    reach = {layer.name: layer.reach for layer in proof.layers}
    assert [reach[name] for name in reach if name.startswith("cross")] == [0, 0]
    assert reach["encoder.0"] == 5
