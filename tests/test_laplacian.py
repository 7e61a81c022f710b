"""The generator of a walk and its energy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import dense_reference as naive
from conwalk.connection import ConnectionLaplacian, ConnectionWalk
from conwalk.errors import ShapeError
from conwalk.operators import Identity
from dense_reference import assert_close, assert_is_operator
from walk_cases import WalkCase, make_case, walk_cases


@given(walk_cases(square=True), st.floats(0.25, 4).map(lambda s: -s) | st.floats(0.25, 4))
def test_generator_is_identity_minus_walk_over_scale(case: WalkCase, scale: float):
    dense, sizes = (
        naive.dense_walk(part.attention, part.W_V, part.W_O, **part.extras)
        for part in (case, case.sizes)
    )
    generator = case.walk.generator(scale)
    assert generator.scale == scale
    one = np.eye(len(dense))
    assert_is_operator(generator, one - dense / scale, one + sizes / abs(scale))


@given(walk_cases(square=True), st.integers(0, 2**16))
def test_energy_is_the_weighted_form(case: WalkCase, seed: int):
    walk = case.walk
    mu = torch.rand(walk.n_keys, generator=torch.Generator().manual_seed(seed)).double()
    image = case.x.numpy() - (walk @ case.x).numpy() / 2.0
    rows = (case.x.numpy() * image).sum(-1)
    sizes = case.sizes
    size = float((sizes.x.square() + sizes.x * (sizes.walk @ sizes.x)).sum())
    generator = walk.generator(2.0)
    for weights, found in (
        (mu.numpy(), generator.energy(case.x, mu)),
        (mu.numpy(), generator.energy(case.x.numpy(), mu.numpy())),
        (np.full(len(mu), 1 / len(mu)), generator.energy(case.x)),
    ):
        assert_close(found, np.array(weights @ rows), 64, size)
    batch = generator.energy(torch.stack([case.x, 2 * case.x]), mu)
    assert_close(batch, batch[0] * torch.tensor([1.0, 4.0]).double(), 64, size)


def test_energy_of_a_reversible_isometric_walk_is_the_dirichlet_energy():
    kernel = torch.tensor([[2, 8, 0], [8, 0, 2], [0, 2, 8]]).double() / 10
    one = torch.eye(2).double()[None]
    generator = ConnectionWalk(kernel[None], 3.0 * one, one).generator(3.0)
    x = torch.tensor([[1.0, 2.0], [0.0, -1.0], [4.0, 1.0]]).double()
    apart = (x[:, None] - x[None]).square().sum(-1)
    expected = 0.5 * (kernel * apart).sum() / 3
    assert_close(generator.energy(x).view(1), expected.view(1), 9)
    assert generator.energy(torch.ones(3, 2).double()).abs() < expected * 1e-12


def test_generator_of_any_square_operator():
    generator = ConnectionLaplacian(Identity((3, 2), dtype=torch.float64))
    assert_is_operator(generator, np.zeros((6, 6)))
    assert isinstance(generator.walk, Identity)


@pytest.mark.parametrize("case", [make_case(queries=3), make_case(width_out=3)])
def test_a_rectangular_walk_has_no_generator(case: WalkCase):
    with pytest.raises(ShapeError, match="has no generator"):
        case.walk.generator()


@pytest.mark.parametrize("scale", [0.0, float("nan"), float("inf")])
def test_a_scale_that_cannot_divide_is_refused(scale: float):
    with pytest.raises(ShapeError, match="scale"):
        make_case().walk.generator(scale)


@pytest.mark.parametrize(
    "mu", [torch.ones(3).double(), torch.ones(4, 1), torch.full((4,), torch.nan)]
)
def test_weights_of_the_energy_must_be_one_per_token(mu: torch.Tensor):
    with pytest.raises(ShapeError, match=r"^mu "):
        make_case().walk.generator().energy(torch.ones(4, 5).double(), mu)
