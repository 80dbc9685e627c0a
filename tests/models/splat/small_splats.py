"""Gaussians for tests: random ones before a camera, and the awkward ones."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from cameras_around import look_at
from dofnerf.camera import Camera
from dofnerf.models.splat.model import SplatModel
from dofnerf.models.splat.raster import Gaussians, draw
from dofnerf.optics import Lens, to_display, to_linear


def camera(width=37, height=29) -> Camera:
    """Neither square nor centred, and turned against the world."""
    pose = look_at((0.4, -0.3, 1.0), (0.1, 0.2, -3.0)).camera_to_world
    return Camera(pose, 1.1 * width, 1.2 * width, width / 2 + 0.7, height / 2 - 1.1, width, height)


def random_gaussians(seen_by: Camera, count=50, pixels=2.5, kinds=9, seed=0, dtype=torch.float32) -> Gaussians:
    """Of about `pixels` deviation, 2 to 8 away, all over the picture and a little beyond."""
    rng = np.random.default_rng(seed)
    depth = 1 / rng.uniform(1 / 8, 1 / 2, count)
    size = np.array([seen_by.width, seen_by.height])
    means = seen_by.unproject(rng.uniform(-0.1, 1.1, (count, 2)) * size, depth)
    scales = np.log(pixels * depth / seen_by.fx)[:, None] + 0.5 * rng.standard_normal((count, 3))
    others = (
        rng.standard_normal((count, 4)),
        2 * rng.standard_normal(count),
        0.3 * rng.standard_normal((count, kinds, 3)),
    )
    return Gaussians(*(torch.from_numpy(array).to(dtype) for array in (means, scales, *others)))


def awkward_gaussians(seen_by: Camera) -> Gaussians:
    """Behind the camera, on its lens, far aside, huge, tiny, needles, nearly invisible, opaque, black, two at one
    place."""
    gaussians = random_gaussians(seen_by, 40, seed=3)
    means, scales, rotations, logits, harmonics = (tensor.clone() for tensor in gaussians)
    forward, place = torch.from_numpy(seen_by.forward).float(), torch.from_numpy(seen_by.position).float()
    means[0:2] = place - forward * torch.tensor([[2.0], [0.001]])
    means[2] = place
    means[3] = place + forward + 40 * torch.from_numpy(seen_by.camera_to_world[:, 0]).float()
    scales[3] = 3.0
    scales[4:6] = torch.tensor([[2.0], [6.0]])
    scales[6:8] = torch.tensor([[-12.0], [-40.0]])
    scales[8:14, 0] += 4
    scales[10:14, 1:] -= 4
    logits[14:20] = torch.tensor([-30.0, -6.0, -5.53, 8.0, 30.0, 100.0])
    harmonics[20:22] = -9.0
    means[22] = means[23]
    scales[24] = math.inf
    scales[25] = 60.0
    rotations[26] = 0.0
    rotations[27] *= 1e-3
    return Gaussians(means, scales, rotations, logits, harmonics)


def learning(gaussians: Gaussians) -> Gaussians:
    return Gaussians(*(tensor.clone().requires_grad_() for tensor in gaussians))


def through_points(model: SplatModel, seen_by: Camera, lens: Lens, points: int) -> torch.Tensor:
    """The image (H, W, 3) of a real lens: the mean light of sharp views by cameras all over it, which see the focal
    plane where the lens's centre does."""
    total = torch.zeros(())
    dice = torch.Generator().manual_seed(0)
    for x, y in lens.shape.points((1,), points, dice)[0].tolist():
        right, up = x * float(lens.aperture) / seen_by.fx, y * float(lens.aperture) / seen_by.fy
        pose = seen_by.camera_to_world.copy()
        pose[:, 3] += right * pose[:, 0] + up * pose[:, 1]
        shift_x, shift_y = (
            focal * by * float(lens.focus_disparity) for focal, by in ((seen_by.fx, right), (seen_by.fy, up))
        )
        moved = replace(seen_by, camera_to_world=pose, cx=seen_by.cx + shift_x, cy=seen_by.cy - shift_y)
        drawn = draw(model.gaussians, moved, style=model.style)
        total = total + drawn.light + (1 - drawn.alpha)[..., None] * to_linear(model.background, 2.2)
    return to_display(total / points, 2.2)
