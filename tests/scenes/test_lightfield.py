"""The synthetic lens: sharp where it is focused, and elsewhere as blurred as its numbers say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import small_scenes as small
from PIL import Image

from dofnerf import scenes

SIZE, GRID = 96, 9
NEAR_DISPARITY, FAR_DISPARITY = -1.5, 1.0


def _dot_field(root: Path, disparity: float) -> Path:
    """A light field of one bright dot, in the middle of the middle view, that moves by `disparity` px a step."""
    root.mkdir()
    v, u = np.mgrid[0:SIZE, 0:SIZE] + 0.5
    for r in range(GRID):
        for c in range(GRID):
            x, y = SIZE / 2 + disparity * (c - 4), SIZE / 2 + disparity * (r - 4)
            light = np.exp(-((u - x) ** 2 + (v - y) ** 2) / (2 * 1.5**2))
            Image.fromarray((light ** (1 / 2.2) * 255).round().astype(np.uint8)).convert("RGB").save(
                root / f"view_{r:02d}_{c:02d}.png"
            )
    (root / "manifest.json").write_text(json.dumps({"focus": {"min": NEAR_DISPARITY, "max": FAR_DISPARITY}}))
    return root


def _spread(photo: np.ndarray, at: np.ndarray) -> float:
    """Variance per axis of the light around a pixel."""
    light = photo[..., 0].astype(np.float64) ** 2.2
    v, u = np.mgrid[0 : photo.shape[0], 0 : photo.shape[1]] + 0.5
    return float((light * ((u - at[0]) ** 2 + (v - at[1]) ** 2)).sum() / light.sum() / 2)


@pytest.mark.parametrize("disparity", [-1.25, 0.0, 0.75])
def test_blur_of_a_dot_is_what_the_lens_says(tmp_path: Path, disparity: float) -> None:
    scene = scenes.load(_dot_field(tmp_path / "dot", disparity), mix="photo")
    middle = next(i for i, frame in enumerate(scene.frames) if frame.name == "view_04_04")
    frame = scene.frames[middle]
    centre = np.array([frame.camera.width / 2, frame.camera.height / 2])
    sharp = _spread(scene.sharp(middle), centre)
    # Any depth gives the dot's place; only one fits every view.
    depth = _depth_of_dot(scene, disparity)
    for source, lens in ((frame.near, frame.near_lens), (frame.far, frame.far_lens)):
        radius = abs(lens.coc_radius(depth))
        blurred = _spread(scene.picture(middle, source), centre)
        assert 2 * np.sqrt(max(blurred - sharp, 0)) == pytest.approx(radius, abs=0.3)
    focused = {-1.25: frame.near, 0.75: frame.far}.get(disparity)
    if focused is not None:
        np.testing.assert_allclose(scene.picture(middle, focused), scene.sharp(middle), atol=0.02)


def _depth_of_dot(scene: scenes.Scene, disparity: float) -> float:
    """Triangulate: the depth at which the outermost two cameras agree about the dot."""
    first, last = scene.frames[0], scene.frames[-1]
    steps = [np.array([int(n) for n in frame.name.split("_")[1:]][::-1]) - 4 for frame in (first, last)]
    dots = [
        np.array([f.camera.width / 2, f.camera.height / 2]) + disparity * s
        for f, s in zip((first, last), steps, strict=True)
    ]
    depths = np.linspace(1.5, 6, 20001)
    seen = last.camera.project(first.camera.unproject(np.repeat(dots[0][None], len(depths), 0), depths))[0]
    miss = np.linalg.norm(seen - dots[1], axis=1)
    assert miss.min() < 0.01
    return float(depths[miss.argmin()])


def test_cameras_agree_in_all_views(tmp_path: Path) -> None:
    scene = scenes.load(_dot_field(tmp_path / "dot", 0.4))
    assert len(scene) == 25 and scene.near == 2 and scene.far == 5
    depth = _depth_of_dot(scene, 0.4)
    first = scene.frames[0].camera
    point = first.unproject(np.array([[first.width / 2 + 0.4 * -2, first.height / 2 + 0.4 * -2]]), np.array([depth]))
    for i, frame in enumerate(scene.frames):
        pixel = frame.camera.project(point)[0][0]
        light = scene.sharp(i)[..., 0].astype(np.float64) ** 2.2
        v, u = np.mgrid[0 : light.shape[0], 0 : light.shape[1]] + 0.5
        assert (light * u).sum() / light.sum() == pytest.approx(pixel[0], abs=0.05)
        assert (light * v).sum() / light.sum() == pytest.approx(pixel[1], abs=0.05)


def test_options_and_what_is_missing(tmp_path: Path) -> None:
    root = small.lightfield(tmp_path / "a")
    assert len(scenes.load(root)) == 1
    assert len(scenes.load(root, grid=scenes.GridOptions(lens_views=1.0, disparities=(-0.5, 0.5)))) == 9
    with pytest.raises(ValueError, match="all neighbours"):
        scenes.load(root, grid=scenes.GridOptions(lens_views=3.0))
    with pytest.raises(ValueError, match="between"):
        scenes.load(root, grid=scenes.GridOptions(lens_views=0.0))
    (root / "view_02_03.png").unlink()
    with pytest.raises(ValueError, match="row 2, column 3 is missing"):
        scenes.load(root)
    (root / "manifest.json").unlink()
    small.picture(root / "view_02_03.png", 0.1, (48, 48))
    with pytest.raises(ValueError, match="give disparities"):
        scenes.load(root)


def test_real_cards_are_sharp_where_the_lens_is_focused(captures: Path) -> None:
    scene = scenes.load(captures / "tarot", which_frames=(12,), hold_every=0)
    frame = scene.frames[0]
    rows = {"near": slice(650, 744), "far": slice(20, 200)}

    def detail(image: np.ndarray, part: slice) -> float:
        return float(np.abs(np.diff(image[part].mean(-1), axis=1)).mean())

    near, far = scene.picture(0, frame.near), scene.picture(0, frame.far)
    assert detail(near, rows["near"]) > 1.8 * detail(far, rows["near"])
    assert detail(far, rows["far"]) > 1.8 * detail(near, rows["far"])
    assert detail(near, rows["near"]) > 0.6 * detail(scene.sharp(0), rows["near"])
    assert detail(far, rows["far"]) > 0.8 * detail(scene.sharp(0), rows["far"])
