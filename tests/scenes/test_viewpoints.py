"""Cameras without photos: written, read, and as 3D Gaussian Splatting lists them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from cameras_around import around
from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.scenes import Lens, Viewpoint, read_cameras, write_cameras


def same(a: Camera, b: Camera) -> bool:
    numbers = ("fx", "fy", "cx", "cy", "width", "height")
    return np.allclose(a.camera_to_world, b.camera_to_world) and all(getattr(a, n) == getattr(b, n) for n in numbers)


def test_what_is_written_is_read(tmp_path):
    lenses = None, Lens(12.0, 2.5), Lens(3.0, math.inf)
    views = [Viewpoint(f"photos/{i}.jpg", camera, lenses[i], i == 1) for i, camera in enumerate(around(3))]
    write_cameras(tmp_path / "cameras.json", views)
    found = read_cameras(tmp_path / "cameras.json")
    for view, back in zip(views, found, strict=True):
        assert (back.name, back.lens, back.held_out) == (view.name, view.lens, view.held_out)
        assert same(back.camera, view.camera)


def test_a_scene_s_own_file_gives_the_scene_s_cameras():
    scene, found = scenes.demo(), read_cameras(scenes.DEMO / "transforms.json")
    assert [view.name for view in found] == [frame.name for frame in scene.frames]
    assert all(same(view.camera, scene.camera(i)) for i, view in enumerate(found))
    assert tuple(i for i, view in enumerate(found) if view.held_out) in ((), scene.test)


def test_frames_may_have_no_photo_and_no_name(tmp_path):
    pose = np.eye(4).tolist()
    data = {"w": 640, "h": 480, "camera_angle_x": math.pi / 2, "frames": [{"transform_matrix": pose}] * 2}
    (tmp_path / "path.json").write_text(json.dumps(data))
    found = read_cameras(tmp_path / "path.json")
    assert [view.name for view in found] == ["0000", "0001"]
    assert found[0].camera.fx == pytest.approx(320) and found[0].camera.cx == 320


def test_cameras_of_3d_gaussian_splatting(tmp_path):
    """x right, y down, z ahead: a thing below, right of and before the camera is seen below, to the right."""
    entry = {
        "id": 0, "img_name": "DSC1", "width": 400, "height": 300, "position": [1.0, 2.0, 3.0],
        "rotation": [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]], "fx": 500.0, "fy": 510.0,
    }  # fmt: skip
    (tmp_path / "cameras.json").write_text(json.dumps([entry, entry | {"img_name": "DSC2"}]))
    first, second = read_cameras(tmp_path / "cameras.json")
    assert (first.name, second.name) == ("DSC1", "DSC2")
    right, down, ahead = np.array(entry["rotation"]).T
    point = first.camera.position + 0.2 * right + 0.1 * down + 2 * ahead
    pixels, depth = first.camera.project(point[None])
    np.testing.assert_allclose(depth, [2.0])
    np.testing.assert_allclose(pixels, [[200 + 500 * 0.1, 150 + 510 * 0.05]])
