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


def _shifted(plane, right, up):
    """The plane as a pixel sees it that lies so many pixels further."""
    x0, y0 = right * plane.depth / FOCAL_PX, up * plane.depth / FOCAL_PX
    return Plane(plane.depth, lambda x, y: plane.texture(x + x0, y + y0), lambda x, y: plane.covers(x + x0, y + y0))


def _antialiased(planes, lens_radius, focus, points, side=4):
    """The mean over `side`² places in each pixel; a lens's points are shared out among them."""
    places = [((i + 0.5) / side - 0.5, (j + 0.5) / side - 0.5) for i in range(side) for j in range(side)]
    shares = [points[k :: len(places)] if lens_radius > 0 else points for k in range(len(places))]
    views = [
        photograph([_shifted(plane, *place) for plane in planes], SIZE, lens_radius, focus, share)
        for place, share in zip(places, shares, strict=True)
    ]
    return np.mean(views, axis=0)


@pytest.mark.parametrize(("label", "least"), [(0.5, 38.0), (0.1, 35.5)], ids=["half covered", "touched"])
def test_thin_stalks_in_focus_before_a_blurred_background(label, least):
    """Stalks of 2.5 pixels, most of whose pixels are mixed; the depth map has those that are covered by more than
    `label` as near. With every near pixel opaque it is 37.5 and 33.8 dB."""

    def covers(x, y):
        column, row = x / 2 * FOCAL_PX, y / 2 * FOCAL_PX
        return np.abs((column + 3 * np.sin(row / 17) + 0.15 * row + 400) % 13 - 6.5) < 1.25

    def gold(x, y):
        return np.array([0.8, 0.55, 0.15]) * (0.85 + 0.15 * np.sin(y / 2 * FOCAL_PX / 9))[..., None]

    near, far = Plane(2.0, gold, covers), Plane(6.0, waves(3, 6.0, tint=(0.25, 0.3, 0.5)), everywhere)
    pinhole, lens_radius = np.zeros((1, 2)), 6 / FOCAL_PX / (1 / 2 - 1 / 6)
    image = _display(_antialiased([near, far], 0.0, 6.0, pinhole))
    white = Plane(2.0, lambda x, y: np.ones((*x.shape, 3)), covers)
    black = Plane(6.0, lambda x, y: np.zeros((*x.shape, 3)), everywhere)
    cover = _antialiased([white, black], 0.0, 6.0, pinhole)[..., 0]
    truth = _display(_antialiased([near, far], lens_radius, 2.0, lens_points(256)))
    cut = split_layers(image, torch.where(torch.tensor(cover > label), 1 / 2.0, 1 / 6.0).float(), 8)
    radius = coc_radius_from_disparity(cut.disparity, FOCAL_PX * lens_radius, 1 / 2.0)
    out = scatter_layers(cut.colour, cut.alpha, radius)
    around = binary_dilation(cover > 0, iterations=7)
    around[:9] = around[-9:] = around[:, :9] = around[:, -9:] = False
    assert psnr(out[around], truth[around]) >= least
