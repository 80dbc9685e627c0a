"""The hash encoding's two backends against each other, and against a grid small enough to be a plain array."""

import numpy as np
import pytest
import torch
from scipy.interpolate import RegularGridInterpolator

from dofnerf.models.volume.fields import hash_cpu
from dofnerf.models.volume.fields.hash import Grid, encode
from dofnerf.models.volume.rays import guided_cpu

GRIDS = [Grid(16, 2, 10, 4, 200), Grid(8, 4, 12, 4, 64), Grid(1, 4, 15, 8, 8), Grid(3, 2, 24, 3, 11)]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_twins_agree(grid):
    torch.manual_seed(0)
    points = 1.2 * torch.rand(700, 3) - 0.1
    points[:8] = torch.tensor([[x, y, z] for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)])
    table = torch.randn(sum(grid.sizes), grid.features)
    pull = torch.randn(len(points), grid.width)
    found = []
    for backend in ("reference", "cpu"):
        p, t = points.clone().requires_grad_(), table.clone().requires_grad_()
        out = encode(p, t, grid, backend)
        out.backward(pull)
        found.append((out.detach(), t.grad, p.grad))
    for slow, fast in zip(*found, strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-4 * float(slow.abs().max()))


def test_a_grid_that_fits_is_trilinear_interpolation():
    grid = Grid(1, 2, 12, 7, 7)
    table = torch.randn(8**3, 2)
    points = torch.rand(50, 3)
    axis = np.linspace(0, 1, 8)
    values = table.reshape(8, 8, 8, 2).numpy().transpose(2, 1, 0, 3)  # the table runs x fastest
    expected = RegularGridInterpolator((axis, axis, axis), values)(points.numpy())
    for backend in ("reference", "cpu"):
        np.testing.assert_allclose(encode(points, table, grid, backend), expected, atol=1e-5)


def test_gradients_by_finite_differences():
    grid = Grid(3, 2, 6, 2, 9)
    points = (0.05 + 0.9 * torch.rand(5, 3, dtype=torch.float64)).requires_grad_()
    table = torch.randn(sum(grid.sizes), 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p, t: encode(p, t, grid), (points, table))


def test_any_number_of_threads_gives_the_same_bits():
    grid = Grid(5, 4, 9, 4, 64)
    points, table = torch.rand(3000, 3), torch.randn(sum(grid.sizes), 4)
    found, threads = [], torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            p, t = points.clone().requires_grad_(), table.clone().requires_grad_()
            out = encode(p, t, grid, "cpu")
            out.square().sum().backward()
            found.append((out.detach(), t.grad, p.grad))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_no_points_and_bad_input():
    grid = Grid(2, 2, 8, 4, 8)
    table = torch.randn(sum(grid.sizes), 2, requires_grad=True)
    for backend in ("reference", "cpu"):
        out = encode(torch.zeros(0, 3), table, grid, backend)
        assert out.shape == (0, 4)
        out.sum().backward()
    for bad in (lambda: Grid(0, 2, 8, 4, 8), lambda: Grid(2, 3, 8, 4, 8), lambda: Grid(2, 2, 8, 9, 8)):
        with pytest.raises(ValueError, match=r"^[^\n]+$"):
            bad()
    with pytest.raises(ValueError, match="do not fit"):
        encode(torch.zeros(4, 2), table, grid)
    with pytest.raises(ValueError, match="float32"):
        encode(torch.zeros(4, 3).double(), table.double(), grid, "cpu")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, -1e30])
def test_no_number_leads_outside_the_table_or_the_density_grid(value):
    """The kernels check no bounds: of NaN, an integer is anything."""
    cell, _ = hash_cpu._cell(np.float32(value), 16)
    assert 0 <= cell < 16 and 0 <= guided_cpu._cell(np.float32(value), 16) < 16
