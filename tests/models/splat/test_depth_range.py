"""The depth range of a scene whose file gives none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dofnerf import scenes
from dofnerf.models.splat.start.depth_range import corrected_range, measured_range, nearest_overlap

pytestmark = pytest.mark.slow


def _bare(**options):
    """The scene in the package without points, and with a range that is far from the truth."""
    scene = scenes.demo(**options)
    frames = tuple(replace(frame, seen=None, seen_error=None, bounds=None) for frame in scene.frames)
    return replace(scene, frames=frames, points=None, near=3.0, far=4.0, range_from="cameras")


def test_it_is_measured_from_the_photos():
    found, words = measured_range(_bare())
    truth = scenes.demo()
    seen = np.concatenate([truth.visible(i).depth for i in truth.train])
    near, far = np.quantile(seen, [0.01, 0.99])
    assert 0.75 * near < found.near < 1.05 * near, words
    assert 0.95 * far < found.far < 1.6 * far, words
    assert found.range_from == "points" and f"{found.near:.4g}" in words


def test_the_scale_of_the_scene_does_not_matter():
    scene = _bare(width=126)
    ranges = []
    for scale in (1.0, 1e-4):
        frames = []
        for frame in scene.frames:
            pose = frame.camera.camera_to_world.copy()
            pose[:, 3] *= scale
            frames.append(replace(frame, camera=replace(frame.camera, camera_to_world=pose)))
        found, _ = measured_range(replace(scene, frames=tuple(frames), near=3 * scale, far=4 * scale))
        ranges.append((found.near / scale, found.far / scale))
    np.testing.assert_allclose(ranges[0], ranges[1], rtol=0.03)


def test_without_parallax_the_guess_stays():
    scene = _bare(width=64)
    pose = scene.frames[0].camera.camera_to_world
    frames = tuple(replace(f, camera=replace(f.camera, camera_to_world=pose)) for f in scene.frames)
    still = replace(scene, frames=frames)
    assert nearest_overlap(still) is None
    found, words = measured_range(still)
    assert (found.near, found.far) == (3.0, 4.0) and "guess" in words


def test_a_range_that_is_too_narrow_is_widened_and_a_right_one_stays():
    scene = scenes.demo()
    kept, words = corrected_range(scene)
    assert (kept.near, kept.far, words) == (scene.near, scene.far, "")
    found, words = corrected_range(replace(scene, far=3.5))
    assert found.near == scene.near
    assert 7 < found.far < 12  # the truth is 9
    assert "widened" in words


@pytest.mark.parametrize("given", [(0.001, 1e5), (0.01, 0.02)])
def test_a_range_that_is_far_too_wide_is_narrowed(given):
    scene = replace(_bare(width=126), near=given[0], far=given[1], range_from="file")
    found, words = corrected_range(scene)
    assert 1.2 < found.near < 2 and 7 < found.far < 14, words  # the truth is 1.2 to 9; no photo sees the near end
    assert "narrowed" in words
