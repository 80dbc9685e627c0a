"""Exposure and pose of each photo: their gradients against finite differences, their gauge, and what training finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tiny_world
import torch
from scipy.spatial.transform import Rotation
from small_splats import camera as turned_camera
from small_splats import random_gaussians

from dofnerf.models.data import Setting
from dofnerf.models.splat.model import SplatModel
from dofnerf.scenes.exif import Exif
from dofnerf.train import train
from dofnerf.train.photos.exposure import ExposureConfig, PhotoExposure
from dofnerf.train.photos.pose import PhotoPose, PoseConfig


def _setting(**changes) -> Setting:
    return replace(Setting.of(tiny_world.scene(5)), **changes)


def test_pose_gradients_are_those_of_a_moving_camera():
    """Against central differences of the loss over cameras that are really moved."""
    seen_by = turned_camera()
    # Round Gaussians without view dependence: others also turn with the camera, a smaller effect that `carry` leaves
    # out.
    some = random_gaussians(seen_by, 60, kinds=1, dtype=torch.float64)
    model = SplatModel(some._replace(log_scales=some.log_scales[:, :1].repeat(1, 3)))
    pose = PhotoPose.make(PoseConfig(), _setting()).double()
    target = torch.rand(seen_by.height, seen_by.width, 3, generator=torch.Generator().manual_seed(1)).double()

    def loss(camera, means=None):
        return (model.picture(camera, means=means).image - target).square().mean()

    loss(pose.camera(seen_by, 2), pose.carry(model.means, pose.camera(seen_by, 2), 2)).backward()
    for name, value in (("turn", pose.turn), ("shift", pose.shift)):
        for axis in range(3):
            sides = []
            for sign in (-1, 1):
                with torch.no_grad():
                    value[2, axis] += sign * 1e-5
                sides.append(float(loss(pose.camera(seen_by, 2)).detach()))
                with torch.no_grad():
                    value[2, axis] -= sign * 1e-5
            expected = (sides[1] - sides[0]) / 2e-5
            assert float(value.grad[2, axis]) == pytest.approx(expected, rel=0.01, abs=1e-6), (name, axis)
        assert not value.grad[[0, 1, 3]].any()


def test_a_similarity_of_all_cameras_is_no_motion():
    rng = np.random.default_rng(0)
    setting = _setting(positions=tuple(map(tuple, rng.normal(size=(4, 3)).tolist())), photos=("a", "b", "c", "d"))
    pose = PhotoPose.make(PoseConfig(), setting)
    omega, tau, scale = rng.normal(size=3) * 1e-3, rng.normal(size=3) * 1e-3, 1.002
    places = np.array(setting.positions)
    middle = places.mean(0)
    moved = middle + scale * Rotation.from_rotvec(omega).apply(places - middle) + tau
    with torch.no_grad():
        pose.turn.copy_(torch.from_numpy(np.tile(omega, (4, 1))))
        pose.shift.copy_(torch.from_numpy((moved - places) / float(pose.unit)))
    pose.constrain()
    assert float(pose.turn.detach().abs().max()) < 1e-5
    assert float((pose.unit * pose.shift).detach().abs().max()) < 1e-5


def test_one_camera_that_moved_keeps_most_of_its_motion():
    rng = np.random.default_rng(1)
    places = tuple(map(tuple, rng.normal(size=(20, 3)).tolist()))
    pose = PhotoPose.make(PoseConfig(), _setting(positions=places, photos=tuple(map(str, range(20)))))
    with torch.no_grad():
        pose.turn[3] = torch.tensor([0.0, 0.002, 0.0])
    pose.constrain()
    assert float(pose.turn[3, 1].detach()) == pytest.approx(0.002, rel=0.2)


def test_exposure_starts_from_exif_and_has_no_common_factor():
    exposure = PhotoExposure.make(ExposureConfig(), _setting(exposures=(1.0, 2.0, 4.0, 1.0)))
    exposure.constrain()
    gains = exposure.log_gain.detach().exp()
    assert gains.log().mean(0).abs().max() < 1e-6
    assert float(gains[2, 0] / gains[0, 0]) == pytest.approx(4)
    assert Exif(f_number=2.0, exposure_time=0.01, iso=400).exposure == pytest.approx(1.0)
    assert Exif(f_number=2.0).exposure is None


@pytest.mark.train
def test_gains_of_photos_are_found():
    """Photos of a scene, each brighter or darker in linear light: training finds by how much."""
    scene = tiny_world.scene(7, (32, 40), test=(3,), points=True)
    gains = np.exp(np.random.default_rng(0).normal(size=7) * 0.3)
    frames = [
        replace(frame, photo=tiny_world.InMemory(((frame.photo.image**2.2 * gain) ** (1 / 2.2)).clip(0, 1)))
        for frame, gain in zip(scene.frames, gains, strict=True)
    ]
    run = train(replace(scene, frames=tuple(frames)), "fast", "splat")
    found = run.learner.quantities.by_name["exposure"].log_gain.detach().mean(1).numpy()
    true = np.log(gains[list(scene.train)])
    assert np.corrcoef(found, true)[0, 1] > 0.95
    assert np.abs(found - (true - true.mean())).mean() < 0.06
