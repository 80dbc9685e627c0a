"""Scatter against many rays through a real lens (oracles/planes.py): the physics, not our formulas."""

import numpy as np
import pytest
import torch
from scipy.ndimage import binary_dilation

from dofnerf.optics import coc_radius, scatter, scatter_layers, shape_of, split_layers
from dofnerf.optics.lens import coc_radius_from_disparity
from oracles.planes import FOCAL_PX, Plane, everywhere, layer_of, lens_points, photograph, psnr, waves

SIZE = (72, 96)


def _display(linear):
    return torch.tensor(np.clip(linear, 1e-9, 1) ** (1 / 2.2), dtype=torch.float32)


@pytest.mark.parametrize("blades", [0, 5])
@pytest.mark.parametrize(("depth", "focus"), [(4.0, 2.0), (2.0, 5.0)])
@pytest.mark.parametrize("radius", [2.0, 6.0])
def test_away_from_edges(blades, depth, focus, radius):
    plane = Plane(depth, waves(1, depth), everywhere)
    lens_radius = radius / FOCAL_PX / abs(1 / focus - 1 / depth)
    truth = _display(photograph([plane], SIZE, lens_radius, focus, lens_points(400, blades, 0.3)))
    sharp = _display(layer_of(plane, SIZE)[0])
    blur = coc_radius(torch.full(SIZE, depth), FOCAL_PX * lens_radius, 1 / focus)
    shape = shape_of(None, blades, np.degrees(0.3))
    out = scatter(sharp, blur, shape)
    inner = (slice(9, -9), slice(9, -9))
    assert psnr(out[inner], truth[inner]) >= 38
    assert psnr(sharp[inner], truth[inner]) < psnr(out[inner], truth[inner]) - 6
    if blades % 2:  # the test can tell how the aperture is turned
        wrong = scatter(sharp, -blur, shape)
        assert psnr(wrong[inner], truth[inner]) < psnr(out[inner], truth[inner]) - radius


@pytest.mark.parametrize("focus", [2.0, 6.0], ids=["near in focus", "far in focus"])
def test_at_depth_edges(focus):
    near = Plane(2.0, waves(2, 2.0, tint=(1, 0.5, 0.3)), lambda x, y: x + 0.03 * np.sin(40 * y) < 0)
    far = Plane(6.0, waves(3, 6.0, tint=(0.4, 0.7, 1)), everywhere)
    lens_radius = 6 / FOCAL_PX / (1 / 2 - 1 / 6)
    aperture = FOCAL_PX * lens_radius
    truth = _display(photograph([near, far], SIZE, lens_radius, focus, lens_points(500)))
    layers = [layer_of(far, SIZE), layer_of(near, SIZE)]
    colour = torch.stack([_display(c) for c, _ in layers])
    alpha = torch.stack([torch.tensor(a, dtype=torch.float32) for _, a in layers])
    depth = torch.stack([torch.full(SIZE, 6.0), torch.full(SIZE, 2.0)])
    layered = scatter_layers(colour, alpha, coc_radius(depth, aperture, 1 / focus))
    seen = alpha[1] > 0
    flat, flat_depth = torch.where(seen[..., None], colour[1], colour[0]), torch.where(seen, depth[1], depth[0])
    plain = scatter(flat, coc_radius(flat_depth, aperture, 1 / focus))
    cut = split_layers(flat, 1 / flat_depth, 2)
    guessed = scatter_layers(cut.colour, cut.alpha, coc_radius_from_disparity(cut.disparity, aperture, 1 / focus))

    edge = binary_dilation(seen, iterations=7) & binary_dilation(~seen, iterations=7)
    edge[:9] = edge[-9:] = edge[:, :9] = edge[:, -9:] = False
    quality = {name: psnr(picture[edge], truth[edge]) for name, picture in
               {"layered": layered, "plain": plain, "guessed": guessed}.items()}  # fmt: skip
    assert quality["layered"] >= 32
    assert quality["plain"] < quality["layered"] - 6
    assert quality["guessed"] > quality["plain"] + 3
