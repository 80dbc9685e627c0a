"""Exposure and pose of each photo: their gauge, where they start, and what training finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tiny_world
from scipy.spatial.transform import Rotation

from dofnerf.camera import Camera, motion, moved
from dofnerf.models.data import Setting
from dofnerf.scenes.exif import Exif
from dofnerf.train import train
from dofnerf.train.photos.exposure import ExposureConfig, PhotoExposure
from dofnerf.train.photos.pose import PhotoPose, PoseConfig


def _setting(**changes) -> Setting:
    return replace(Setting.of(tiny_world.scene(5)), **changes)


def _pose(count: int, rng: np.random.Generator) -> tuple[PhotoPose, list[Camera]]:
    places = rng.normal(size=(count, 3))
    setting = _setting(positions=tuple(map(tuple, places.tolist())), photos=tuple(map(str, range(count))))
    like = tiny_world.scene(5).camera(0)
    poses = [np.concatenate([Rotation.random(random_state=k).as_matrix(), p[:, None]], 1) for k, p in enumerate(places)]
    return PhotoPose.make(PoseConfig(), setting), [replace(like, camera_to_world=pose) for pose in poses]


def test_a_similarity_of_all_cameras_is_no_motion():
    rng = np.random.default_rng(0)
    pose, cameras = _pose(6, rng)
    turn, shift, scale = rng.normal(size=3) * 1e-3, rng.normal(size=3) * 1e-3, 1.002
    middle = np.mean([camera.position for camera in cameras], axis=0)
    found = []
    for camera in cameras:
        place = middle + scale * Rotation.from_rotvec(turn).apply(camera.position - middle) + shift
        found.append(moved(camera, turn, place - camera.position))
    pose.move(cameras, found)
    assert float(pose.turn.abs().max()) < 1e-5
    assert float(pose.shift.abs().max()) < 2e-5


def test_one_camera_that_moved_keeps_most_of_its_motion():
    pose, cameras = _pose(20, np.random.default_rng(1))
    pose.move(cameras, [moved(c, np.array([0, 0.002 * (k == 3), 0]), np.zeros(3)) for k, c in enumerate(cameras)])
    assert float(pose.turn[3, 1]) == pytest.approx(0.002, rel=0.2)
    turn, _ = motion(cameras[3], pose.camera(cameras[3], 3))
    np.testing.assert_allclose(turn, pose.turn[3].double(), atol=1e-9)


def test_photos_of_a_bracket_move_together():
    setting = _setting(
        brackets=(0, 0, 1, 1), photos=("a", "b", "c", "d"), positions=((0, 0, 0),) * 2 + ((1, 0, 0),) * 2
    )
    pose, camera = PhotoPose.make(PoseConfig(), setting), tiny_world.scene(5).camera(0)
    found = [moved(camera, np.zeros(3), np.array([0.01 * k, 0, 0])) for k in range(4)]
    pose.begin([camera] * 4, found)
    assert pose.shift[:, 0].tolist() == pytest.approx([0.005, 0.025])


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
