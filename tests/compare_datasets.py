"""Whether two results hold the same numbers, up to rounding."""

import numpy as np
import torch
import xarray as xr

from conwalk import tolerance
from conwalk.results import refused

ROUNDING = ("residual", "row_sum_defect", "leak", "least_weight")
"""Quantities that are rounding themselves."""
_LEAST = 0.1


def assert_same(found: xr.Dataset, expected: xr.Dataset, dtype: torch.dtype, terms: int) -> None:
    """Every number of two datasets agrees to the rounding of sums of so many terms.

    Args:
        found: one result.
        expected: the other.
        dtype: in which the model computes its softmax.
        terms: of the longest sum: the width of the residual stream, or the tokens.
    """
    assert set(found.data_vars) == set(expected.data_vars)
    assert refused(found) == refused(expected)
    limit = tolerance.rounding(dtype, terms)
    for name in expected.data_vars:
        a, b = found[name].values, expected[name].values
        assert np.array_equal(np.isnan(a), np.isnan(b)), name
        known = ~np.isnan(b)
        error = np.abs(a[known] - b[known])
        scale = 1.0 if name in ROUNDING else np.maximum(np.abs(b[known]), _LEAST)
        assert (error <= limit * scale).all(), (name, float((error / scale).max()), limit)
