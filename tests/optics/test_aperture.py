"""Aperture shapes and light curves."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from dofnerf.optics import scatter
from dofnerf.optics.light import to_display, to_linear
from dofnerf.optics.shapes import Blades, edge, shape_of


def test_edge_is_the_papers_soft_step_within_its_cut_off():
    x = torch.linspace(-3, 3, 1001, dtype=torch.float64)
    paper = 0.5 + 0.5 * torch.tanh(4 * x)
    assert float((edge(x) - paper).abs().max()) < 4e-4
    assert float(edge(torch.tensor(-1.0))) == pytest.approx(0, abs=1e-7)
    assert float(edge(torch.tensor(1.0))) == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("blades", [3, 5, 6, 9])
def test_polygon_is_the_papers_k_where_the_paper_is_right(blades):
    """For an offset in the upper half plane and no rotation, arctan and |·| of the paper do no harm."""
    angle = np.linspace(0.01, np.pi / 2 - 0.01, 57)
    m = np.mod(angle, 2 * np.pi / blades)
    paper = np.sin(np.pi / 2 - np.pi / blades) / np.sin(np.pi / 2 - np.pi / blades + m)
    x, y = torch.tensor(3 * np.cos(angle)), torch.tensor(3 * np.sin(angle))
    np.testing.assert_allclose(Blades(blades).reach(x, -y), paper, rtol=1e-9)


@pytest.mark.parametrize(("blades", "rotation"), [(3, 0.0), (5, 0.4), (6, -0.2), (7, 3.0)])
def test_rim_of_the_polygon_lies_on_straight_sides(blades, rotation):
    """Vertices at distance 1, sides through them: checked against the convex hull of the vertices."""
    shape = Blades(blades, rotation=rotation)
    corner = rotation + np.arange(blades + 1) * 2 * np.pi / blades
    corners = np.stack([np.cos(corner), -np.sin(corner)], axis=-1)
    for a, b in pairwise(corners):
        for share in (0.0, 0.3, 0.5, 0.9):
            x, y = a + share * (b - a)
            k = float(shape.reach(torch.tensor(x * 7), torch.tensor(y * 7)))
            assert k == pytest.approx(math.hypot(x, y), rel=1e-9)


@pytest.mark.parametrize("bad", [{"blades": 2}, {"blades": -1}, {"blades": 5, "rotation": math.nan}])
def test_bad_shape(bad):
    with pytest.raises(ValueError, match=list(bad)[-1]):
        shape_of(**bad)


def test_bad_norm():
    with pytest.raises(ValueError, match="norm"):
        scatter(torch.ones(2, 2, 3), torch.ones(2, 2), norm="sum")


@pytest.mark.parametrize("curve", [1, 1.8, 2.2, "srgb"])
def test_light_curves_invert_and_have_finite_slope_at_black(curve):
    x = torch.linspace(0, 1.5, 400, dtype=torch.float64, requires_grad=True)
    back = to_display(to_linear(x, curve), curve)
    torch.testing.assert_close(back, x)
    black = torch.zeros(1, requires_grad=True)
    to_display(black, curve).sum().backward()
    assert torch.isfinite(black.grad).all()


def test_srgb_is_the_standard():
    torch.testing.assert_close(
        to_linear(torch.tensor([0.5, 0.02, 1.0]), "srgb"), torch.tensor([0.2140411, 0.0015480, 1.0])
    )
    torch.testing.assert_close(to_linear(torch.tensor(0.5), 2.2), torch.tensor(0.5**2.2))


@pytest.mark.parametrize("curve", [0, -1, math.nan, "rec709"])
def test_bad_curve(curve):
    with pytest.raises(ValueError, match="light curve"):
        to_linear(torch.ones(1), curve)
