"""Whole pictures: a field whose scene is known, sharp and through a lens, in any chunks."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from cameras_around import look_at
from dofnerf.camera import Camera
from dofnerf.models import PLAIN, Blur
from dofnerf.models.volume import CoarseFineConfig, DensityGridConfig, VolumeModel, concentrate
from dofnerf.models.volume.fields import FieldKind, VolumetricField, kind
from dofnerf.models.volume.rays import Rays, camera_rays, choose_space, lens_rays, stack_cameras
from dofnerf.models.volume.weights import average_light
from dofnerf.optics import DISC, Blades, Lens
from oracles.lens_rays import render_exact

CAMERA = Camera(np.eye(3, 4), 40.0, 40.0, 12.0, 10.0, 24, 20)
SPACE = choose_space([CAMERA], 1.0, 6.0)
NEAR, FAR = 1.5, 4.0


@dataclass(frozen=True)
class NoConfig:
    pass


class TwoPlanes(VolumetricField):
    """A red half-plane (x < 0) at depth NEAR before a striped wall at depth FAR, for a camera at the origin."""

    def __init__(self, config):
        super().__init__()
        self.strength = torch.nn.Parameter(torch.tensor(400.0))

    def forward(self, points, directions):
        x, depth = self._world(points)
        wall = 0.5 + 0.4 * torch.sin(x * 9)
        near = depth < (NEAR + FAR) / 2
        colour = torch.stack(
            [torch.where(near, 0.9, wall), torch.where(near, 0.1, wall), torch.where(near, 0.1, 0.3)], -1
        )
        return colour, self.density(points)

    def density(self, points):
        x, depth = self._world(points)
        there = ((depth - NEAR).abs() < 0.08) & (x < 0) | ((depth - FAR).abs() < 0.3)
        return self.strength * there

    @staticmethod
    def _world(points):
        low, high = points.new_tensor(SPACE.low), points.new_tensor(SPACE.high)
        projected = (points + 1) / 2 * (high - low) + low
        depth = 1 / projected[..., 2]
        return projected[..., 0] * depth, depth


def planes(samples=48):
    made = FieldKind("planes", NoConfig, TwoPlanes, "density-grid")
    model = VolumeModel(made, NoConfig(), SPACE, DensityGridConfig(samples, 96, 64))
    for _ in range(3):
        model.refresh(generator=torch.Generator().manual_seed(0))
    return model


@pytest.fixture(scope="module")
def model():
    return planes()


def test_sharp(model):
    view = model.view(CAMERA)
    assert view.image.shape == (20, 24, 3)
    assert view.disparity.shape == view.alpha.shape == (20, 24)
    torch.testing.assert_close(view.image[:, :11], torch.tensor([0.9, 0.1, 0.1]).expand(20, 11, 3), atol=0.02, rtol=0)
    torch.testing.assert_close(1 / view.disparity[:, :11], torch.full((20, 11), NEAR), atol=0.08, rtol=0)
    torch.testing.assert_close(1 / view.disparity[:, 13:], torch.full((20, 11), FAR), atol=0.35, rtol=0)
    assert (view.alpha > 0.99).all()


@pytest.mark.parametrize(
    ("lens", "blur"),
    [(None, PLAIN), (Lens(5.0, NEAR), PLAIN), (Lens(5.0, FAR, Blades(6)), Blur(layers=4))],
    ids=str,
)
def test_chunks_change_nothing(model, lens, blur, monkeypatch):
    whole = model.view(CAMERA, lens, blur)
    monkeypatch.setattr(model, "chunk", 37)
    pieces = model.view(CAMERA, lens, blur)
    for a, b in zip(whole, pieces, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_a_closed_lens_changes_nothing(model):
    sharp, closed = model.view(CAMERA).image, Lens(0.0, focus_disparity=0.3)
    torch.testing.assert_close(model.view(CAMERA, closed).image, sharp)
    torch.testing.assert_close(model.view(CAMERA, closed, Blur(3)).image, sharp, atol=0.03, rtol=0)
    exact = render_exact(model, CAMERA, closed, points=2)
    torch.testing.assert_close(exact, sharp, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("focus", [NEAR, FAR])
def test_layers_come_close_to_the_exact_lens(model, focus):
    """Plain and layered blur against real lens rays through the same field."""
    generator = torch.Generator().manual_seed(1)
    lens = Lens(8.0, focus_disparity=1 / focus)
    exact = render_exact(model, CAMERA, lens, points=64, generator=generator)
    errors = [float((model.view(CAMERA, lens, Blur(layers)).image - exact).square().mean()) for layers in (1, 4)]
    assert errors[1] < errors[0]
    assert errors[1] < 2e-3


def test_lens_rays_teach_aperture_and_focus(model):
    """The loss of a handful of lens rays falls toward the true lens: its gradient has the right sign on both sides."""
    cameras = stack_cameras([CAMERA])
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(40, 2, generator=generator) * torch.tensor([20.0, 16.0]) + 2
    points = DISC.points((40,), 16, generator)
    photo = torch.zeros(40, dtype=torch.long)

    def seen(aperture, focus):
        rays = lens_rays(cameras, photo, pixels, points, aperture, focus)
        assert isinstance(rays, Rays)
        return average_light(concentrate(model.shade(rays)[-1]).colour)

    with torch.no_grad():
        truth = seen(3.0, 1 / NEAR)
    for aperture, sign in ((2.0, -1), (4.0, 1)):
        value = torch.tensor(aperture, requires_grad=True)
        (seen(value, 1 / NEAR) - truth).square().mean().backward()
        assert value.grad * sign > 0


def test_position_gradients_through_a_learned_field():
    torch.manual_seed(0)
    config = kind("hash").config(levels=4, log2_size=10, finest=32)
    model = VolumeModel(kind("hash"), config, SPACE, DensityGridConfig(8, 16, 8))
    torch.nn.init.normal_(model.fields[0].table)
    aperture = torch.tensor(2.0, requires_grad=True)
    focus = torch.tensor(0.4, requires_grad=True)
    rays = lens_rays(
        stack_cameras([CAMERA]), torch.zeros(5).long(), 20 * torch.rand(5, 2), DISC.points((5,), 4), aperture, focus
    )
    model(rays)[-1].colour.sum().backward()
    assert aperture.grad.abs() > 0
    assert focus.grad.abs() > 0


def test_coarse_and_fine_pair():
    torch.manual_seed(0)
    camera = look_at((0, 0, 0), (0, 0, -1))
    config = kind("nerf").config(depth=2, width=8)
    model = VolumeModel(kind("nerf"), config, SPACE, CoarseFineConfig(6, 5))
    rays = camera_rays(camera)
    coarse, fine = model.shade(rays, torch.Generator().manual_seed(0))
    assert coarse.density.shape == (10, 12, 6)
    assert fine.density.shape == (10, 12, 10)
    assert (fine.depth.diff(dim=-1) >= 0).all()
    only = model.shade(rays, torch.Generator().manual_seed(0), only_last=True)
    assert len(only) == 1
    torch.testing.assert_close(only[0].colour, fine.colour)
