"""Points triangulated from photos with known poses: near the true surfaces and the packaged points, or a reason why
not."""

import importlib.util
import os
import sys
import tempfile
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from cameras_around import facing_forward
from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.models.splat import start as starting
from dofnerf.models.splat.start import starting_points, triangulation
from dofnerf.models.splat.start.triangulation import Effort, pairs_to_match, triangulated
from dofnerf.scenes.scene import Frame, Scene
from painted import BOARD, FOCAL, WALL, Painted, paint

WIDTH, HEIGHT = 144, 108


@pytest.fixture(scope="module")
def world():
    """Four photos through different pinhole cameras, the last of them held out and not even there."""
    frames = []
    for i, (x, y) in enumerate([(0, 0), (0.35, 0.05), (-0.3, 0.1), (0.1, -0.3)]):
        pose = np.concatenate([np.eye(3), [[x], [y], [0.05 * i]]], axis=1)
        camera = Camera(pose, FOCAL + 2 * i, FOCAL + i, WIDTH / 2 + i, HEIGHT / 2 - i, WIDTH, HEIGHT)
        frames.append(Frame(f"{i}", camera, Painted(paint(camera) if i < 3 else None)))
    return Scene("painted", "memory", tuple(frames), 2.0, 7.0, (0, 1, 2), (3,))


@pytest.fixture(scope="module")
def found(world, tmp_path_factory):
    if importlib.util.find_spec("pycolmap") is None:  # not imported here: it must not share a process with Pillow
        pytest.skip("needs pycolmap: pip install 'dofnerf[capture]'")
    folder = tmp_path_factory.mktemp("staged")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        result, _ = triangulated(world)
    assert os.listdir(folder) == []  # nothing is left on disk
    assert "pycolmap" not in sys.modules
    return result


def test_points_lie_on_wall_and_board(world, found):
    xyz = found.points.xyz
    off = np.minimum(np.abs(xyz[:, 2] + WALL) / WALL, np.abs(xyz[:, 2] + BOARD) / BOARD)
    assert len(xyz) > 100 and np.median(off) < 0.01 and np.mean(off < 0.05) > 0.9
    board = xyz[:, 2] > -3.5
    assert 0.05 < board.mean() < 0.8
    assert found.points.error.max() < 0.5 and found.points.rgb.dtype == np.uint8
    assert found.frames[3].seen is None and found.train == world.train and world.points is None
    for i in found.train:  # a photo sees a point where it has the point's colour
        seen = found.visible(i)
        assert len(seen.ids) > 30
        columns, rows = seen.pixels.astype(int).T
        assert np.median(np.abs(world.photo(i)[rows, columns] - found.points.rgb[seen.ids] / 255)) < 0.06


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_gives_the_same_points(world, found, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        again, _ = triangulated(world)
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(again.points.xyz, found.points.xyz)
    assert all(np.array_equal(again.visible(i).ids, found.visible(i).ids) for i in found.train)


def test_a_start_takes_them_and_says_so(world, found, monkeypatch):
    monkeypatch.setattr(starting, "triangulated", lambda scene: (found, ""))
    start = starting_points(world, 2000)
    assert start.way == "triangulated+sweep" and f"{len(found.points)} triangulated from the photos" in start.how
    np.testing.assert_allclose(start.points[: len(found.points)], found.points.xyz, rtol=1e-5)
    assert starting_points(world, 150, swept=False).way == "triangulated"
    assert starting_points(world, 150, triangulate=False).how.endswith("from a plane sweep")
    few = replace(found, points=replace(found.points, xyz=found.points.xyz[:7]))
    monkeypatch.setattr(starting, "triangulated", lambda scene: (few, ""))
    start = starting_points(world, 150)
    assert start.way == "sweep" and start.how.endswith("; none triangulated: only 7 points found")


def test_own_points_come_first(monkeypatch):
    monkeypatch.setattr(starting, "triangulated", None)
    start = starting_points(scenes.demo(), 50)
    assert start.way == "sparse" and "triangulated" not in start.how


def test_without_pycolmap_the_sweep_goes_on(world, monkeypatch):
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    start = starting_points(world, 150)
    assert (
        start.way == "sweep"
        and "none triangulated: pycolmap is not installed: install the extra 'capture'" in start.how
    )


def test_a_child_that_fails_or_hangs(world, monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "staged"))
    (tmp_path / "staged").mkdir()
    monkeypatch.setattr(triangulation, "CHILD", tmp_path / "child.py")
    (tmp_path / "child.py").write_text("raise RuntimeError('no luck')")
    start = starting_points(world, 150)
    assert start.way == "sweep" and start.how.endswith(
        "; none triangulated: pycolmap failed (1): RuntimeError: no luck"
    )
    (tmp_path / "child.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)")
    with pytest.raises(ValueError, match="not done in 9 seconds of processor time"):
        triangulated(world, Effort(seconds=9))
    (tmp_path / "child.py").write_text("import time; time.sleep(60)")
    monkeypatch.setattr(triangulation, "_PATIENCE", 1)
    with pytest.raises(ValueError, match="not done in 1 seconds"):
        triangulated(world, Effort(seconds=1))
    assert os.listdir(tmp_path / "staged") == []


@pytest.mark.parametrize("count, pairs", [(5, 10), (60, 1770)])
def test_every_pair_of_a_few_photos(count, pairs):
    assert pairs_to_match(side_by_side(count)) == list(combinations(range(count), 2))
    assert len(pairs_to_match(side_by_side(count))) == pairs


def test_only_neighbours_of_many_photos():
    pairs = pairs_to_match(side_by_side(100))
    assert len(pairs) <= 100 * 12 and len(set(pairs)) == len(pairs)
    assert all(0 < b - a <= 12 for a, b in pairs) and {a for pair in pairs for a in pair} == set(range(100))


@pytest.mark.parametrize("size, staged", [((72, 96), (216, 288)), ((480, 640), (534, 712)), ((600, 900), (600, 900)),
                                          ((1000, 1500), (632, 949))])  # fmt: skip
def test_small_photos_are_enlarged_and_large_ones_shrunk(size, staged, tmp_path):
    photo = Painted(np.full((*size, 3), 0.5, np.float32))
    frames = tuple(Frame(f"{i}", camera, photo) for i, camera in enumerate(facing_forward(2, size, focal=100.0)))
    scale = triangulation._stage(tmp_path, Scene("flat", "memory", frames, 2.0, 7.0, (0, 1), ()), Effort())
    header = (tmp_path / "photos" / "00001.ppm").read_bytes()[:20].split()
    assert (int(header[2]), int(header[1])) == staged and scale == staged[1] / size[1]


@pytest.mark.parametrize(
    "changes, why", [({"train": (0,)}, "no two photos"), ({"size": (40, 50)}, "photos of 50×40 are too small")]
)
def test_what_cannot_be_triangulated(changes, why, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    scene = side_by_side(3, changes.get("size", (72, 96)))
    with pytest.raises(ValueError, match=why):
        triangulated(replace(scene, train=changes.get("train", scene.train)))


def side_by_side(count, size=(72, 96)):
    frames = tuple(
        Frame(f"{i}", camera, Painted(None)) for i, camera in enumerate(facing_forward(count, size, focal=90.0))
    )
    return Scene("empty", "memory", frames, 2.0, 7.0, tuple(range(count)), ())
