"""Straightened photos, against projections and warps computed another way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import small_scenes as small
from PIL import Image
from skimage.transform import warp

from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.scenes.distortion import Distortion, sample_cubic, straighten

SIZE = (300, 200)
BENT = Distortion(k1=-0.12, k2=0.04, p1=0.003, p2=-0.004)


def test_bend_is_the_textbook_formula() -> None:
    x, y = 0.3, -0.2
    r2 = x * x + y * y
    k1, k2, p1, p2 = -0.12, 0.04, 0.003, -0.004
    expected = (
        x * (1 + k1 * r2 + k2 * r2**2) + 2 * p1 * x * y + p2 * (r2 + 2 * x * x),
        y * (1 + k1 * r2 + k2 * r2**2) + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y,
    )
    np.testing.assert_allclose(BENT.bend(np.array(x), np.array(y)), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("model", "params"),
    [
        ("SIMPLE_RADIAL", (250.0, 150.0, 100.0, 0.1)),
        ("SIMPLE_RADIAL", (250.0, 150.0, 100.0, -0.15)),
        ("RADIAL", (250.0, 152.0, 97.0, -0.12, 0.05)),
        ("OPENCV", (250.0, 255.0, 152.0, 97.0, -0.12, 0.04, 0.003, -0.004)),
    ],
)
def test_dots_move_to_where_the_pinhole_sees_them(
    tmp_path: Path, model: str, params: tuple[float, ...], monkeypatch
) -> None:
    """Draw small dots where the bent camera sees known 3D points; in the straight photo they lie where it says."""
    monkeypatch.setattr(small, "WIDTH", SIZE[0])
    monkeypatch.setattr(small, "HEIGHT", SIZE[1])
    root = small.colmap(tmp_path, model=model, params=params)
    poses, points = small.world()
    pose = poses[1]
    local = (points - pose[:, 3]) @ pose[:, :3]
    x, y = local[:, 0] / -local[:, 2], -local[:, 1] / -local[:, 2]
    k = {"SIMPLE_RADIAL": (*params[3:], 0, 0, 0), "RADIAL": (*params[3:], 0, 0), "OPENCV": params[4:]}[model]
    fx, fy, cx, cy = params[:4] if model == "OPENCV" else (params[0], *params[:3])
    r2 = x * x + y * y
    radial = 1 + k[0] * r2 + k[1] * r2 * r2
    column = cx + fx * (x * radial + 2 * k[2] * x * y + k[3] * (r2 + 2 * x * x))
    row = cy + fy * (y * radial + k[2] * (r2 + 2 * y * y) + 2 * k[3] * x * y)
    chosen = _apart(column, row, 12)
    u, v = np.meshgrid(np.arange(SIZE[0]) + 0.5, np.arange(SIZE[1]) + 0.5)
    dots = sum(np.exp(-((u - column[i]) ** 2 + (v - row[i]) ** 2) / 4) for i in chosen)
    Image.fromarray((np.clip(dots, 0, 1) * 255).astype(np.uint8)).convert("RGB").save(root / "images/photo_1.png")
    scene = scenes.load(root, which_frames=(1,), hold_every=0)
    photo = scene.photo(0)[..., 0]
    target, _ = scene.camera(0).project(points)
    found = 0
    for i in chosen:
        c, r = target[i]
        if 8 < c < SIZE[0] - 8 and 8 < r < SIZE[1] - 8:
            near = np.hypot(u - c, v - r) < 5
            assert np.average(u[near], weights=photo[near]) == pytest.approx(c, abs=0.1)
            assert np.average(v[near], weights=photo[near]) == pytest.approx(r, abs=0.1)
            found += 1
    assert found >= 6


def test_straight_photo_agrees_with_skimage(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = np.asarray(
        Image.fromarray(rng.integers(0, 255, (25, 40, 3), dtype=np.uint8)).resize(SIZE, Image.Resampling.BICUBIC)
    )
    root = small.transforms(tmp_path, lens=False)
    data = json.loads((root / "transforms.json").read_text())
    data |= {"w": SIZE[0], "h": SIZE[1], "fl_x": 250.0, "k1": BENT.k1, "k2": BENT.k2, "p1": BENT.p1, "p2": BENT.p2}
    (root / "transforms.json").write_text(json.dumps(data))
    for i in range(small.COUNT):
        Image.fromarray(noise).save(root / f"images/photo_{i}.png")
    scene = scenes.load(root)
    camera = scene.camera(0)

    def to_bent(xy: np.ndarray) -> np.ndarray:
        x, y = BENT.bend((xy[:, 0] + 0.5 - camera.cx) / camera.fx, (xy[:, 1] + 0.5 - camera.cy) / camera.fy)
        return np.stack([150 + 250 * x - 0.5, 100 + 250 * y - 0.5], axis=1)

    expected = warp(noise / 255.0, to_bent, order=3, mode="edge")
    assert np.abs(scene.photo(0) - expected)[4:-4, 4:-4].max() < 0.02


def test_no_blank_corner_and_no_lost_size() -> None:
    pose = np.eye(4)[:3]
    camera = Camera(pose, 250, 250, 150, 100, *SIZE)
    longer, zoom = straighten(camera, Distortion(k1=0.2), "here")
    assert zoom > 1 and longer.fx == pytest.approx(250 * zoom) and (longer.width, longer.height) == SIZE
    _, shorter = straighten(camera, Distortion(k1=-0.2), "here")
    assert shorter < 1
    assert straighten(camera, Distortion(), "here") == (camera, 1.0)
    for absurd in (Distortion(k1=50.0), Distortion(k1=-5.0), Distortion(k1=1e11), Distortion(p1=3.0)):
        with pytest.raises(ValueError, match=r"^here: the distortion .*$"):
            straighten(camera, absurd, "here")


def test_cubic_samples_reproduce_a_ramp() -> None:
    v, u = np.mgrid[0:9, 0:12].astype(np.float32)
    image = np.stack([u / 20, v / 20, (u + v) / 40], axis=-1)
    rng = np.random.default_rng(1)
    column, row = rng.uniform(2.5, 9.5, 50), rng.uniform(2.5, 6.5, 50)
    expected = np.stack([(column - 0.5) / 20, (row - 0.5) / 20, (column + row - 1) / 40], axis=-1)
    np.testing.assert_allclose(sample_cubic(image, column, row), expected, atol=1e-5)


def _apart(column: np.ndarray, row: np.ndarray, least: float) -> list[int]:
    chosen: list[int] = []
    for i in range(len(column)):
        if all(np.hypot(column[i] - column[j], row[i] - row[j]) > least for j in chosen):
            chosen.append(i)
    return chosen
