"""Arrays that do not make a walk are refused, by name."""

from typing import Any

import pytest
import torch

from conwalk.errors import ShapeError
from walk_cases import make_case

_CASE = make_case(heads=2, group=2, queries=3, keys=4, scale=True, gate=True)


def _nan_at(tensor: torch.Tensor) -> torch.Tensor:
    broken = tensor.clone()
    broken.view(-1)[1] = torch.nan
    return broken


def _inf_at(tensor: torch.Tensor) -> torch.Tensor:
    broken = tensor.clone()
    broken.view(-1)[0] = -torch.inf
    return broken


_PARTS = ("attention", "W_V", "W_O", "b_V", "b_O", "value_scale", "output_gate")


@pytest.mark.parametrize("name", _PARTS)
@pytest.mark.parametrize("spoil", [_nan_at, _inf_at])
def test_numbers_that_are_not_finite(name: str, spoil: Any):
    broken = _CASE.change(**{name: spoil(getattr(_CASE, name))})
    with pytest.raises(ShapeError, match=f"^{name} holds NaN or infinite numbers"):
        _ = broken.walk


@pytest.mark.parametrize("name", _PARTS)
def test_one_axis_too_many(name: str):
    broken = _CASE.change(**{name: getattr(_CASE, name)[None]})
    with pytest.raises(ShapeError, match=f"^{name} has shape"):
        _ = broken.walk


@pytest.mark.parametrize("name", _PARTS)
def test_empty_arrays(name: str):
    broken = _CASE.change(**{name: getattr(_CASE, name)[:0]})
    with pytest.raises(ShapeError, match=f"^{name} has shape .* none of them 0"):
        _ = broken.walk


@pytest.mark.parametrize("name", sorted({*_PARTS} - {"W_V"}))
def test_another_dtype_than_the_rest(name: str):
    broken = _CASE.change(**{name: getattr(_CASE, name).float()})
    with pytest.raises(ShapeError, match=rf"^{name} is torch\.float32"):
        _ = broken.walk


@pytest.mark.parametrize("name", ["attention", "b_V", "b_O", "value_scale", "output_gate"])
def test_another_shape_than_the_rest(name: str):
    part = getattr(_CASE, name)
    broken = _CASE.change(**{name: torch.cat([part, part])})
    with pytest.raises(ShapeError, match=rf"^{name} has shape .* needs \("):
        _ = broken.walk


@pytest.mark.parametrize(
    ("weighting", "message"),
    [
        (torch.tensor([1.0, 1.0, 0.0, 1.0]), "not positive"),
        (torch.tensor([1.0, 1.0]), r"weighting has shape \(2,\)"),
        (torch.tensor([1.0, 1.0, torch.nan, 1.0]), "weighting holds NaN"),
    ],
)
def test_weightings_that_weigh_no_heads(weighting: torch.Tensor, message: str):
    with pytest.raises(ShapeError, match=message):
        _CASE.walk.walk_matrix(weighting)


def test_fields_of_another_shape():
    with pytest.raises(ShapeError, match=r"x has shape \(3, 5\): the operator acts on"):
        _CASE.walk(torch.zeros(3, 5).double())
