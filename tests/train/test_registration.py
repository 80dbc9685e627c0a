"""Registration finds the camera and the gains with which a picture was taken; evaluation says that it did it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_splats import camera as turned_camera
from small_splats import random_gaussians

from dofnerf.camera import motion, moved
from dofnerf.models.splat.model import SplatModel
from dofnerf.optics import to_display, to_linear
from dofnerf.train.registration import Prior, Target, register, weighed


@pytest.fixture(scope="module")
def world():
    """A model, a camera, and about how deep the scene is."""
    small = turned_camera()
    camera = small.resized(4 * small.width, 4 * small.height)
    model = SplatModel(random_gaussians(small, 200))
    return model, camera, float(1 / model.view(camera).disparity.median())


def _gained(picture, gains):
    return to_display(to_linear(picture, 2.2) * torch.tensor(gains).exp(), 2.2)


def test_camera_and_gains_are_found(world):
    model, camera, depth = world
    rng = np.random.default_rng(0)
    true = moved(camera, rng.normal(size=3) * 0.003, rng.normal(size=3) * 0.003 * depth)
    gains = [0.1, -0.05, 0.02]
    target = Target(_gained(model.view(true).image, gains), 2.2)
    found = register(target, model.view, camera, Prior(camera, depth, 2.0), rounds=6)
    before, after = motion(true, camera), motion(true, found.camera)
    for was, now in zip(before, after, strict=True):
        assert np.linalg.norm(now) < 0.2 * np.linalg.norm(was)
    np.testing.assert_allclose(found.log_gain, gains, atol=0.005)
    assert found.found < 0.1 * found.given


def test_what_is_masked_moves_nothing(world):
    model, camera, depth = world
    photo, mask = model.view(camera).image.clone(), torch.ones(camera.height, camera.width)
    photo[:, : camera.width // 2], mask[:, : camera.width // 2] = 0.7, 0.0
    found = register(Target(photo, 2.2, mask), model.view, camera, Prior(camera, depth, 0.35))
    turn, shift = motion(camera, found.camera)
    assert np.linalg.norm(turn) < 1e-6
    assert np.linalg.norm(shift) < 1e-6 * depth


def test_what_is_masked_holds_nothing(world):
    """Masked pixels, which are no evidence that the camera is right, must not slow it down."""
    model, camera, depth = world
    true = moved(camera, np.array([0.003, 0.002, 0]), np.zeros(3))
    photo, mask = model.view(true).image.clone(), torch.ones(camera.height, camera.width)
    photo[:, : 2 * camera.width // 3], mask[:, : 2 * camera.width // 3] = 0.7, 0.0
    left = []
    for known in (Target(photo, 2.2, mask), Target(model.view(true).image, 2.2)):
        found = register(known, model.view, camera, Prior(camera, depth, 1e3), rounds=2)
        left.append(np.linalg.norm(motion(true, found.camera)[0]) / np.linalg.norm(motion(true, camera)[0]))
    assert left[0] < 0.2 and left[1] < 0.2


def test_what_is_clipped_holds_nothing(world):
    """A white area, which the scene shows brighter, does not agree with it; it must not slow the camera down."""
    model, camera, depth = world
    true = moved(camera, np.array([0.003, 0.002, 0]), np.zeros(3))
    white = 2 * camera.width // 3
    photo, mask = model.view(true).image.clone(), torch.ones(camera.height, camera.width)
    photo[:, :white], mask[:, white - 2 : white + 2] = 1.0, 0.0  # its edge has slopes of its own

    def show(camera):
        view = model.view(camera)
        image = view.image.clone()
        image[:, :white] += 1.0
        return view._replace(image=image)

    found = register(Target(photo, 2.2, mask), show, camera, Prior(camera, depth, 1e3), rounds=2)
    assert np.linalg.norm(motion(true, found.camera)[0]) < 0.2 * np.linalg.norm(motion(true, camera)[0])


def test_clipped_values_have_no_weight_and_no_part_in_the_median():
    """One channel of some pixels, as if there were only the others."""
    generator = torch.Generator().manual_seed(0)
    shown, photo = torch.rand(2, 12, 16, 3, generator=generator)
    shown[:, 4:, 1], photo[:, 4:, 1] = 1.2, 0.99
    off, weight = weighed(shown, photo)
    clipped = torch.zeros(12, 16, 3, dtype=torch.bool)
    clipped[:, 4:, 1] = True
    assert not weight[clipped].any() and not off[clipped].any()
    seen = (shown - photo)[~clipped].abs()
    usual = 1.5 * float(seen.median()) + 1e-4
    inner = ~clipped[1:-1, 1:-1]
    expected = 1 / (1 + ((shown - photo)[1:-1, 1:-1][inner] / (2 * usual)) ** 2) / (27 * usual**2)
    torch.testing.assert_close(weight[1:-1, 1:-1][inner], expected)


def test_a_strong_prior_holds_the_camera(world):
    model, camera, depth = world
    true = moved(camera, np.array([0.004, 0, 0]), np.zeros(3))
    target = Target(model.view(true).image, 2.2)
    turned = [
        motion(camera, register(target, model.view, camera, Prior(camera, depth, p)).camera)[0][0] for p in (1e-4, 2)
    ]
    assert abs(turned[0]) < 0.0004
    assert turned[1] > 0.002
