"""Real captures: points reproject, numbering is right, our COLMAP reader agrees with pycolmap."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import small_scenes as small

from dofnerf import scenes
from dofnerf.scenes.colmap_model import camera_pose, read_model, reproject
from dofnerf.scenes.formats import llff

# Everything that pycolmap sees in a model, as arrays; it runs on its own because it may corrupt Pillow's PNG writing.
DUMP = """
import sys, numpy, pycolmap
model = pycolmap.Reconstruction(sys.argv[1])
images = sorted(model.images.values(), key=lambda image: image.name)
points = sorted(model.points3D)
cameras = [camera for _, camera in sorted(model.cameras.items())]
numpy.savez(
    sys.argv[2],
    names=numpy.array([image.name for image in images]),
    poses=numpy.array([image.cam_from_world().matrix() for image in images]),
    cameras=numpy.array([repr([c.model.name, c.width, c.height, *c.params.tolist()]) for c in cameras]),
    xyz=numpy.array([model.points3D[key].xyz for key in points]),
    rgb=numpy.array([model.points3D[key].color for key in points]),
    error=numpy.array([model.points3D[key].error for key in points]),
    seen=numpy.array([sum(p.has_point3D() for p in image.points2D) for image in images]),
    keys=numpy.array([sum(p.xy.sum() for p in image.points2D) for image in images]),
)
if len(sys.argv) > 3:
    model.write_text(sys.argv[3])
"""
needs_pycolmap = pytest.mark.skipif(importlib.util.find_spec("pycolmap") is None, reason="pycolmap is not installed")


def agree(folder: Path, tmp_path: Path, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-c", DUMP, str(folder), str(tmp_path / "dump.npz"), *arguments], check=True, timeout=120
    )
    theirs = np.load(tmp_path / "dump.npz")
    for text in (False, True) if arguments else (False,):
        model = read_model(Path(arguments[0]) if text else folder)
        images = sorted(model.images.values(), key=lambda image: image.name)
        assert [image.name for image in images] == theirs["names"].tolist()
        for image, matrix in zip(images, theirs["poses"], strict=True):
            pose = camera_pose(image, "here")
            np.testing.assert_allclose(pose[:, :3] * [1, -1, -1], matrix[:, :3].T, atol=1e-9)
            np.testing.assert_allclose(pose[:, 3], -matrix[:, :3].T @ matrix[:, 3], atol=1e-7)
        cameras = [repr([c.model, c.width, c.height, *c.params]) for _, c in sorted(model.cameras.items())]
        assert cameras == theirs["cameras"].tolist()
        order = np.argsort(model.points.ids)
        np.testing.assert_allclose(model.points.xyz[order], theirs["xyz"], atol=1e-9)
        np.testing.assert_array_equal(model.points.rgb[order], theirs["rgb"])
        np.testing.assert_allclose(model.points.error[order], theirs["error"], atol=1e-9)
        assert [int((image.point_ids >= 0).sum()) for image in images] == theirs["seen"].tolist()
        np.testing.assert_allclose([image.xy.sum() for image in images], theirs["keys"], rtol=1e-6)


@needs_pycolmap
def test_our_reader_agrees_with_pycolmap_on_small_models(tmp_path: Path) -> None:
    root = small.colmap(tmp_path, model="OPENCV", params=(30.0, 31.0, 12.0, 8.0, 0.01, 0.002, 0.001, -0.001))
    (tmp_path / "text").mkdir()
    agree(root / "sparse/0", tmp_path, str(tmp_path / "text"))


@needs_pycolmap
@pytest.mark.parametrize("name", ["room", "drinks"])
def test_our_reader_agrees_with_pycolmap(captures: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "text").mkdir()
    agree(captures / name / "sparse/0", tmp_path, str(tmp_path / "text"))


@pytest.mark.parametrize("name", ["room", "drinks"])
def test_colmap_points_reproject(captures: Path, name: str) -> None:
    model = read_model(captures / name / "sparse/0")
    errors = np.concatenate([reproject(model, image)[1] for image in model.images.values()])
    assert np.median(errors) < 1.5
    assert np.mean(errors) == pytest.approx(
        np.average(model.points.error, weights=np.bincount(model.points.track_point)), rel=0.02
    )


@pytest.mark.parametrize(
    ("name", "views", "size"), [("fern", 20, (504, 378)), ("flower", 34, (504, 378)), ("room", 41, (490, 363))]
)
def test_llff_scenes(captures: Path, name: str, views: int, size: tuple[int, int]) -> None:
    scene = scenes.load(captures / name)
    assert len(scene) == views and scene.size == size and scene.format == "LLFF"
    assert scene.test == tuple(range(4, views, 9)) and not scene.notes
    for i in range(views):
        seen = scene.visible(i)
        near, far = scene.frames[i].bounds
        assert len(seen.depth) > 300 and np.median(seen.error) < 1.5
        assert np.mean((seen.depth > 0.98 * near) & (seen.depth < 1.02 * far)) > 0.97


@pytest.mark.parametrize("name", ["fern", "flower"])
def test_points_without_images_show_the_same_colour_in_the_photos(captures: Path, name: str) -> None:
    """The points carry colours of the photos: where the numbering of tracks is right, the photo has that colour
    there."""
    scene = scenes.load(captures / name)
    right, wrong = [], []
    for i in range(0, len(scene), 5):
        seen = scene.visible(i)
        column, row = seen.pixels.astype(int).T
        colour = scene.points.rgb[seen.ids] / 255.0
        right.append(np.abs(scene.photo(i)[row, column] - colour).mean())
        wrong.append(np.abs(scene.photo((i + len(scene) // 2) % len(scene))[row, column] - colour).mean())
    assert np.mean(right) < 0.7 * np.mean(wrong)


def test_points_with_another_numbering_are_left_out(captures: Path, monkeypatch) -> None:
    whole = llff.read_poses
    monkeypatch.setattr(llff, "read_poses", lambda root: whole(root)[::-1])
    scene = scenes.load(captures / "fern")
    assert scene.points is None and "do not fit" in scene.notes[0]


def test_drinks_both_ways(captures: Path) -> None:
    """LLFF's table and COLMAP's model describe the same cameras, one focal length a photo."""
    table, model = scenes.load(captures / "drinks"), scenes.load(captures / "drinks", format="colmap")
    assert table.size == model.size == (780, 520) and len(table) == 32
    focal = [table.camera(i).fx for i in range(32)]
    assert np.ptp(focal) > 100
    for i in range(32):
        assert table.camera(i).fx == pytest.approx(model.camera(i).fx, rel=1e-6)
        np.testing.assert_allclose(table.camera(i).camera_to_world, model.camera(i).camera_to_world, atol=1e-5)
        assert np.median(model.visible(i).error) < 1.5
