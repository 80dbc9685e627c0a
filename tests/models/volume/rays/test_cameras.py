"""Rays against the camera's own projection; rays through a lens against the geometry of a thin lens."""

import numpy as np
import pytest
import torch

from cameras_around import around, facing_forward
from dofnerf.camera import Camera
from dofnerf.models.volume.rays import camera_rays, lens_rays, pixel_rays, stack_cameras
from dofnerf.optics import DISC, shape_of
from oracles.planes import FOCAL_PX
from oracles.planes import lens_points as spiral
from oracles.planes import pixel_rays as plane_rays


def test_the_parameter_of_a_ray_is_depth():
    for camera in [*around(3), *facing_forward(2)]:
        rays = camera_rays(camera)
        depth = 0.5 + 3 * torch.rand(camera.height, camera.width, 4)
        points = rays.at(depth)
        pixels, found = camera.project(points.double().numpy().reshape(-1, 3))
        np.testing.assert_allclose(found, depth.reshape(-1), rtol=1e-4)
        row, column = np.mgrid[: camera.height, : camera.width]
        expected = np.repeat(np.stack([column, row], -1).reshape(-1, 2) + 0.5, 4, axis=0)
        np.testing.assert_allclose(pixels, expected, atol=1e-2)
        distance = (points - rays.origins[..., None, :]).norm(dim=-1)
        torch.testing.assert_close(distance, depth * rays.norms[..., None])


def test_rays_of_many_photos_at_once():
    cameras = around(5)
    photo, pixels = torch.tensor([4, 0, 2]), torch.tensor([[0.5, 0.5], [3.5, 7.5], [11.5, 2.5]])
    together = pixel_rays(stack_cameras(cameras), photo, pixels)
    for i in range(3):
        alone = camera_rays(cameras[photo[i]])
        column, row = pixels[i].long()
        torch.testing.assert_close(together.directions[i], alone.directions[row, column])
        torch.testing.assert_close(together.origins[i], alone.origins[row, column])


@pytest.mark.parametrize("focus_depth", [0.7, 3.0, float("inf")])
def test_lens_rays_meet_in_the_focal_plane_and_blur_by_the_law(focus_depth):
    camera = around(1)[0]
    cameras, photo, pixels = stack_cameras([camera]), torch.zeros(6, dtype=torch.long), 12 * torch.rand(6, 2)
    points = DISC.points((6,), 9)
    aperture, disparity = 2.5, 1 / focus_depth
    rays = lens_rays(cameras, photo, pixels, points, aperture, disparity)
    assert rays.shape == (6, 9)
    for depth in (0.5, 1.7, 40.0):
        at = rays.at(torch.full((6, 9, 1), depth)).double().numpy().reshape(-1, 3)
        seen, found = camera.project(at)
        np.testing.assert_allclose(found, depth, rtol=1e-4)
        # The sensor pixel p gathers from the point whose image is p + radius · lens point, mirrored in rows.
        radius = aperture * (1 / depth - disparity)
        offset = radius * points.numpy() * (1, -1)
        np.testing.assert_allclose(seen.reshape(6, 9, 2), pixels.numpy()[:, None] + offset, atol=2e-3)


def test_lens_rays_agree_with_the_ray_traced_planes():
    camera = Camera(np.eye(3, 4), FOCAL_PX, FOCAL_PX, 10.0, 8.0, 20, 16)
    lens_radius, focus, depth = 0.05, 2.0, 3.1
    points = spiral(12)
    x, y = plane_rays(16, 20)
    pixels = torch.tensor([[3.5, 9.5], [19.5, 0.5]])
    on_lens = torch.from_numpy(points).float().expand(2, -1, 2)
    rays = lens_rays(stack_cameras([camera]), torch.zeros(2).long(), pixels, on_lens, FOCAL_PX * lens_radius, 1 / focus)
    met = rays.at(torch.full((2, 12, 1), depth))[..., 0, :]
    for i, (column, row) in enumerate(pixels.long().tolist()):
        t = depth / focus
        expected = points * lens_radius + t * (
            np.array([x[row, column], y[row, column]]) * focus - points * lens_radius
        )
        np.testing.assert_allclose(met[i, :, :2], expected, atol=1e-5)


def test_lens_rays_carry_gradients_to_the_lens():
    cameras = stack_cameras(around(2))
    cameras = type(cameras)(*(tensor.double() for tensor in cameras))
    photo, pixels, points = torch.tensor([1, 0]), 12 * torch.rand(2, 2).double(), DISC.points((2,), 3).double()

    def trace(aperture, focus):
        rays = lens_rays(cameras, photo, pixels, points, aperture, focus)
        return rays.at(torch.full((2, 3, 1), 1.7).double()), rays.norms

    lens = (torch.tensor([1.2, 2.0], dtype=torch.float64), torch.tensor([0.3, 0.0], dtype=torch.float64))
    assert torch.autograd.gradcheck(trace, tuple(value.requires_grad_() for value in lens))


@pytest.mark.parametrize("blades", [0, 3, 6])
def test_lens_points_fill_the_aperture_evenly(blades):
    points = shape_of(None, blades, np.degrees(0.3)).points((4000,), 8, torch.Generator().manual_seed(0)).double()
    assert points.norm(dim=-1).max() <= 1 + 1e-6
    # Second moments of a regular n-gon of circumradius 1: (2 + cos 2π/n) / 12 an axis; of a disc: 1/4.
    moment = 0.25 if blades == 0 else (2 + np.cos(2 * np.pi / blades)) / 12
    flat = points.reshape(-1, 2)
    np.testing.assert_allclose(flat.T @ flat / len(flat), np.eye(2) * moment, atol=4e-3)
    np.testing.assert_allclose(flat.mean(0), 0, atol=5e-3)
    # Stratified: the mean over one handful is far steadier than of as many random points.
    assert points.square().sum(-1).mean(-1).std() < 0.5 * points.square().sum(-1).std() / 8**0.5 + (
        0.1 if blades else 0
    )
