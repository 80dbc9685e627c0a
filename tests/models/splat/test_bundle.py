"""Bundle adjustment: cameras that are off are found again, and those that are right stay."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dofnerf.camera import Camera, motion, moved, zoomed
from dofnerf.models.splat.start.bundle import Free, Tracks, adjusted, reprojection_errors


def _world(noise: float, seed: int = 0) -> tuple[list[Camera], Tracks]:
    """Twelve cameras before 300 points, whose features are off by `noise` pixels, a few of them by much more."""
    rng = np.random.default_rng(seed)
    points = np.stack([rng.uniform(-1, 1, 300), rng.uniform(-0.7, 0.7, 300), -rng.uniform(1.5, 6, 300)], axis=1)
    points[:, :2] *= -points[:, 2:] * 0.4
    cameras = []
    for _ in range(12):
        turn = Rotation.from_rotvec(rng.normal(size=3) * 0.03).as_matrix()
        place = rng.normal(size=(3, 1)) * [[0.3], [0.2], [0.05]]
        cameras.append(Camera(np.concatenate([turn, place], axis=1), 500.0, 500.0, 300.0, 200.0, 600, 400))
    photo, point = (part.ravel() for part in np.meshgrid(np.arange(12), np.arange(300), indexing="ij"))
    some = rng.random(len(photo)) < 0.5
    photo, point = photo[some], point[some]
    pixels = np.concatenate([camera.project(points)[0] for camera in cameras]).reshape(12, 300, 2)[photo, point]
    pixels += noise * rng.normal(size=pixels.shape)
    pixels[rng.random(len(pixels)) < 0.03] += 20.0
    return cameras, Tracks(points + 0.01 * rng.normal(size=points.shape), photo, point, pixels)


def _error(found: list[Camera], true: list[Camera]) -> tuple[float, float]:
    """Mean turn in degrees and mean shift against the true cameras, from the mean motion on."""
    turns, shifts = (
        np.array(part) for part in zip(*(motion(a, b) for a, b in zip(true, found, strict=True)), strict=True)
    )
    off = (np.linalg.norm(part - part.mean(0), axis=1).mean() for part in (turns, shifts))
    turned, shifted = off
    return float(np.rad2deg(turned)), float(shifted)


def test_cameras_that_are_off_are_found_again():
    true, tracks = _world(0.3)
    rng = np.random.default_rng(1)
    given = [moved(c, rng.normal(size=3) * 0.002, rng.normal(size=3) * 0.003) for c in true]
    found, points, words = adjusted(given, tracks, 1.0)
    (turned, shifted), (turn, shift) = _error(given, true), _error(found, true)
    assert turn < 0.4 * turned
    assert shift < 0.6 * shifted
    assert "cameras moved to fit" in words
    better = tracks._replace(points=points)
    assert np.median(reprojection_errors(found, better)) < 0.5 * np.median(reprojection_errors(given, tracks))


def test_cameras_that_are_right_stay_as_they_are():
    true, tracks = _world(0.3)
    found, points, words = adjusted(true, tracks, 1.0)
    assert found == true
    assert points is tracks.points
    assert not words


def test_scale_of_the_world_changes_nothing():
    true, tracks = _world(0.3)
    rng = np.random.default_rng(1)
    steps = rng.normal(size=(12, 2, 3)) * [[[0.002], [0.003]]]
    results = []
    for size in (1.0, 1000.0):
        cameras = [moved(c, a, (size - 1) * c.position + size * b) for c, (a, b) in zip(true, steps, strict=True)]
        found, _, _ = adjusted(cameras, tracks._replace(points=size * tracks.points), 1.0)
        results.append([motion(a, b) for a, b in zip(cameras, found, strict=True)])
    for (turn, shift), (other, far) in zip(*results, strict=True):
        np.testing.assert_allclose(turn, other, atol=1e-6)
        np.testing.assert_allclose(1000 * shift, far, atol=1e-3)
    assert np.abs(results[0][0][0]).max() > 1e-4


@pytest.mark.parametrize("few", [0, 30])
def test_few_tracks_move_nothing(few):
    true, tracks = _world(0.3)
    some = tracks.point < few
    given = [moved(c, np.full(3, 0.002), np.zeros(3)) for c in true]
    found, _, words = adjusted(given, tracks.of(some), 1.0)
    assert found == given
    assert not words


@pytest.mark.parametrize("turned", [0.0, 0.002])
def test_focal_lengths_that_are_off_are_found_again(turned):
    true, tracks = _world(0.3)
    rng = np.random.default_rng(1)
    given = [
        zoomed(moved(c, rng.normal(size=3) * turned, rng.normal(size=3) * turned), np.exp(0.008 * rng.normal()))
        for c in true
    ]
    found, _, words = adjusted(given, tracks, 1.0, Free(True, True))
    ratios = [np.log([a.fx / b.fx for a, b in zip(some, true, strict=True)]) for some in (given, found)]
    assert np.std(ratios[1]) < 0.3 * np.std(ratios[0])
    assert abs(np.mean(ratios[1]) - np.mean(ratios[0])) < 1e-9
    assert "focal lengths" in words


@pytest.mark.parametrize("turned", [0.0, 0.002])
def test_focal_lengths_that_are_right_stay_as_they_are(turned):
    true, tracks = _world(0.3)
    rng = np.random.default_rng(2)
    given = [moved(c, rng.normal(size=3) * turned, rng.normal(size=3) * turned) for c in true]
    found, _, words = adjusted(given, tracks, 1.0, Free(True, True))
    assert [c.fx for c in found] == [c.fx for c in given]
    assert bool(words) == bool(turned)
