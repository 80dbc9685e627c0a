"""Exposure, pose and focal length of each photo: their gauge, where they start, and what training finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tiny_world
import torch
from scipy.spatial.transform import Rotation

from dofnerf import scenes
from dofnerf.camera import Camera, motion, moved, zoomed
from dofnerf.lab.synth.wild import Wildness, make_wild
from dofnerf.models.data import Setting, training_data
from dofnerf.scenes.exif import Exif
from dofnerf.train import train
from dofnerf.train.photos.exposure import ExposureConfig, PhotoExposure, common_gains
from dofnerf.train.photos.focal import FocalConfig, PhotoFocal
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


def test_gains_of_points_that_some_photos_show_are_found_despite_outliers():
    rng = np.random.default_rng(3)
    true = rng.normal(size=(8, 3)) * 0.4
    true -= true.mean(0)
    logs = true[:, None] + rng.normal(size=(1, 300, 3)) + 0.05 * rng.normal(size=(8, 300, 3))
    logs[rng.random((8, 300)) < 0.15] += rng.normal(size=3) + 1.0  # occluded, or shining
    logs[rng.random((8, 300)) < 0.5] = np.nan
    found = common_gains(logs)
    assert np.abs(found.mean(0)).max() < 1e-9
    assert np.abs(found - true).max() < 0.05


@pytest.mark.parametrize(("exposure", "least"), [(0.4, 0.98), (0.0, None)])
def test_gains_start_by_points_unless_they_say_nothing(exposure, least):
    """Blurred photos of the packaged scene, up to two stops apart; no step of training."""
    demo = scenes.demo(width=126)
    made, gains = make_wild(demo, Wildness(exposure=exposure, white_balance=0.0, turn=0.0, shift=0.0))
    pairs = zip(made.frames, demo.frames, strict=True)
    frames = tuple(replace(new, seen=old.seen, seen_error=old.seen_error) for new, old in pairs)
    scene = replace(made, points=demo.points, frames=frames)
    quantity = PhotoExposure.make(ExposureConfig(), Setting.of(scene))
    quantity.look(scene, training_data(scene, "given", torch.device("cpu")), 2.2)
    found = quantity.log_gain.detach().numpy()
    if least is None:
        assert not found.any()
    else:
        assert np.corrcoef(found.ravel(), np.log([gains[i] for i in scene.train]).ravel())[0, 1] > least


@pytest.mark.train
def test_gains_of_photos_are_found():
    """Sharp photos, each brighter or darker in linear light: training finds by how much. (Blurred photos of 40 pixels
    do not tell a wrong lens from a wrong gain.)"""
    scene = tiny_world.scene(7, (32, 40), test=(3,), points=True)
    gains = np.exp(np.random.default_rng(0).normal(size=7) * 0.3)
    frames = [
        replace(frame, photo=tiny_world.InMemory(((frame.sharp.image**2.2 * gain) ** (1 / 2.2)).clip(0, 1)))
        for frame, gain in zip(scene.frames, gains, strict=True)
    ]
    run = train(replace(scene, frames=tuple(frames)), "fast", "splat")
    found = run.learner.quantities.by_name["exposure"].log_gain.detach().mean(1).numpy()
    true = np.log(gains[list(scene.train)])
    assert np.corrcoef(found, true)[0, 1] > 0.95
    assert np.abs(found - (true - true.mean())).mean() < 0.06


def test_focal_lengths_keep_their_mean():
    focal = PhotoFocal.make(FocalConfig(), _setting(photos=("a", "b", "c"), focal=(100.0,) * 3))
    cameras = [replace(tiny_world.scene(5).camera(0), fx=100.0, fy=99.0)] * 3
    focal.move(cameras, [zoomed(camera, 1 + 0.01 * k) for k, camera in enumerate(cameras)])
    found = [focal.camera(camera, k) for k, camera in enumerate(cameras)]
    assert np.prod([camera.fx / 100 for camera in found]) == pytest.approx(1, abs=1e-6)
    assert found[2].fx / found[0].fx == pytest.approx(1.02, rel=1e-5)
    assert found[1].fy / found[1].fx == pytest.approx(0.99)
    refined = _setting(focal=tuple(camera.fx for camera in found))  # what a run gives to all columns
    assert focal.columns(refined)["focal_pixels"] == refined.focal
    assert "off by up to 0.99 %" in focal.findings()
