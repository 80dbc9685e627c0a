"""Where splats begin: a wall and a board before it, photographed from seven places, every second photo focused on the
board."""

import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from dofnerf.camera import Camera
from dofnerf.models.splat.start import point_sizes, starting_points
from dofnerf.models.splat.start.fusion import fuse
from dofnerf.models.splat.start.sweep import sparse_anchors, sweep
from dofnerf.models.splat.start.views import between, box_mean, choose_neighbours, local_sharpness, prepare
from dofnerf.scenes.scene import Frame, Points, Scene

WIDTH, HEIGHT, FOCAL = 72, 48, 70.0
WALL, BOARD = 6.0, 2.5
PLACES = [(0, 0), (0.3, 0.05), (-0.3, 0.1), (0.05, 0.25), (-0.1, -0.25), (0.3, -0.3), (-0.3, -0.2)]


@dataclass(frozen=True)
class Painted:
    """A photo from memory."""

    number: int
    pixels: bytes
    label: str = "painted"

    def load(self):
        return np.frombuffer(self.pixels, dtype=np.float32).reshape(HEIGHT, WIDTH, 3)


def camera_at(x, y):
    turn = np.array([[np.cos(x / 9), 0, np.sin(x / 9)], [0, 1, 0], [-np.sin(x / 9), 0, np.cos(x / 9)]])
    return Camera(np.concatenate([turn, [[x], [y], [0]]], axis=1), FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2, WIDTH, HEIGHT)


def true_depth(camera, fine=1):
    """(H, W) depth along the axis and the point seen, (H, W, 3); wall and board face z."""
    camera = camera.resized(WIDTH * fine, HEIGHT * fine)
    rows, columns = np.mgrid[: camera.height, : camera.width] + 0.5
    rays = camera.unproject(np.stack([columns.ravel(), rows.ravel()], axis=-1), np.ones(rows.size)) - camera.position
    board = camera.position + rays * (BOARD / -rays[:, 2:])
    hit = (np.abs(board[:, 0]) < 0.5) & (np.abs(board[:, 1]) < 0.4)
    depth = np.where(hit, BOARD, WALL) / -rays[:, 2]
    return depth.reshape(rows.shape), (camera.position + rays * depth[:, None]).reshape(*rows.shape, 3)


def paint(camera):
    """Sharp, four samples a pixel."""
    _, at = true_depth(camera, 2)
    scale = np.where(at[..., 2] > -4, 1.0, 2.4)
    x, y = at[..., 0] / scale, at[..., 1] / scale
    grey = np.sin(23 * x + 3 * np.sin(9 * y)) * np.cos(19 * y + 2 * np.sin(14 * x)) + 0.5 * np.sin(40 * x * y + 31 * x)
    image = 0.5 + 0.2 * np.stack([grey, grey * np.cos(5 * x), grey * np.sin(4 * y) + 0.3], axis=-1)
    return image.reshape(HEIGHT, 2, WIDTH, 2, 3).mean(axis=(1, 3))


def make_scene(places=PLACES, blur=True, points=None):
    frames = []
    for number, (x, y) in enumerate(places):
        camera = camera_at(x, y)
        image = paint(camera)
        if blur:  # every second photo shows the wall blurred, the others the board
            far = true_depth(camera)[0] > 4
            soft = np.stack([box_mean(image[None, ..., c], 2)[0] for c in range(3)], axis=-1)
            image = np.where((far == (number % 2 == 0))[..., None], soft, image)
        seen = None if points is None else np.arange(len(points))
        frames.append(Frame(f"{number}", camera, Painted(number, image.astype(np.float32).tobytes()), seen=seen))
    return Scene("painted", "memory", tuple(frames), 2.0, 8.0, tuple(range(len(places))), (), points)


def errors(scene, points):
    """Of each point, the least relative error of its disparity over the photos."""
    least = np.full(len(points), np.inf)
    for i in scene.train:
        pixels, depth = scene.camera(i).project(points.astype(np.float64))
        ids = np.flatnonzero((depth > 0) & (pixels >= 0).all(1) & (pixels < scene.size).all(1))
        columns, rows = pixels[ids].astype(int).T
        least[ids] = np.minimum(least[ids], np.abs(true_depth(scene.camera(i))[0][rows, columns] / depth[ids] - 1))
    return least


@pytest.fixture(scope="module")
def scene():
    return make_scene()


@pytest.fixture(scope="module")
def start(scene):
    return starting_points(scene, 3000)


def test_sweep_finds_the_surfaces(scene, start):
    assert start.way == "sweep" and start.how.startswith(
        f"{len(start.points)} points: {len(start.points)} from a plane sweep"
    )
    assert 2500 < len(start.points) <= 3000
    error = errors(scene, start.points)
    assert np.median(error) < 0.02 and np.mean(error < 0.05) > 0.85
    board = start.points[:, 2] > -4
    assert 0.1 < board.mean() < 0.6  # both are there
    assert start.points.dtype == start.colours.dtype == start.sizes.dtype == np.float32


def test_colours_are_of_the_sharpest_photo(scene, start):
    """Closer to the sharp scene than the blurred photos are."""
    sharp = make_scene(blur=False)
    camera = scene.camera(0)
    pixels, depth = camera.project(start.points.astype(np.float64))
    ids = np.flatnonzero((pixels >= 0).all(1) & (pixels < scene.size).all(1))
    columns, rows = pixels[ids].astype(int).T
    wall = (np.abs(depth[ids] / true_depth(camera)[0][rows, columns] - 1) < 0.05) & (depth[ids] > 4)
    ids, columns, rows = ids[wall], columns[wall], rows[wall]
    ours = np.abs(start.colours[ids] - sharp.photo(0)[rows, columns]).mean()
    blurred = np.abs(scene.photo(0)[rows, columns] - sharp.photo(0)[rows, columns]).mean()
    assert ours < 0.8 * blurred


def test_same_seed_same_points(scene, start):
    again = starting_points(scene, 3000)
    np.testing.assert_array_equal(again.points, start.points)
    np.testing.assert_array_equal(again.colours, start.colours)


def test_sparse_points_are_kept_and_guide():
    rng = np.random.default_rng(0)
    xyz = np.stack([rng.uniform(-1, 1, 200), rng.uniform(-0.8, 0.8, 200), np.full(200, -WALL)], axis=-1)
    wrong = np.zeros(200)
    wrong[:50] = 9.0  # miss by nine pixels
    scene = make_scene(points=Points(xyz, np.full((200, 3), 51, dtype=np.uint8), wrong))
    start = starting_points(scene, 1000)
    assert start.way == "sparse+sweep" and "150 of the scene's sparse points" in start.how
    np.testing.assert_allclose(start.points[:150], xyz[50:], rtol=1e-6)
    np.testing.assert_allclose(start.colours[:150], 0.2)
    alone = starting_points(scene, 100, swept=False)
    assert alone.way == "sparse" and len(alone.points) == 100
    views = prepare(scene)
    anchors = sparse_anchors(scene, views)
    known = anchors > 0
    true = np.stack([true_depth(camera)[0] for camera in views.cameras])
    far = known & (true > 4)
    assert far.sum() > 100
    right, unaided = (
        np.mean(np.abs(sweep(views, a)[far] * true[far] - 1) < 0.1) for a in (anchors, np.zeros_like(anchors))
    )
    assert right > unaided and right > 0.8


@pytest.mark.parametrize("places", [[(0, 0)], [(0, 0), (0, 0), (0, 0)]])
def test_without_parallax_points_are_spread(places):
    scene = make_scene(places)
    start = starting_points(scene, 500, seed=3)
    assert start.way == "spread" and len(start.points) == 500
    depth = scene.camera(0).project(start.points.astype(np.float64))[1]
    assert 1.99 < depth.min() < 2.3 and 6 < depth.max() < 8.01
    assert abs(np.mean(1 / depth) - (1 / 2 + 1 / 8) / 2) < 0.02


def test_nothing_to_start_from(scene):
    with pytest.raises(ValueError, match="at least one point"):
        starting_points(scene, 0)
    empty = Scene("none", "memory", scene.frames, 2.0, 8.0, (), (0,))
    with pytest.raises(ValueError, match="no training photos"):
        starting_points(empty, 10)


def test_held_out_photos_are_not_looked_at():
    scene = make_scene(PLACES[:4])
    nobody = Frame("held out", scene.camera(3), Painted(9, b"broken"))
    split = Scene("split", "memory", (*scene.frames[:3], nobody), 2.0, 8.0, (0, 1, 2), (3,))
    assert len(starting_points(split, 200).points)


def test_map_between_cameras():
    one, other = camera_at(0.3, 0.05), camera_at(-0.3, 0.1)
    pixels, depth = np.array([[3.5, 40.0], [60.0, 7.25]]), np.array([2.0, 5.0])
    seen, their_depth = other.project(one.unproject(pixels, depth))
    homogeneous = between(one, other) @ np.concatenate([pixels, np.ones((2, 1)), 1 / depth[:, None]], axis=1).T
    np.testing.assert_allclose((homogeneous[:2] / homogeneous[2]).T, seen)
    np.testing.assert_allclose(homogeneous[2] * depth, their_depth)


def test_neighbours_are_near_look_the_same_way_and_stand_elsewhere():
    about = Camera(np.array([[-1.0, 0, 0, 0.1], [0, 1, 0, 0], [0, 0, -1, 0]]), 70, 70, 36, 24, 72, 48)
    cameras = (camera_at(0, 0), camera_at(0, 0), camera_at(1, 0), camera_at(0.2, 0), about)
    assert choose_neighbours(cameras, 2.0, 3).tolist()[0] == [3, 2, -1]


def test_sizes_are_distances_to_the_nearest():
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.normal(0, 0.05, (200, 3)) - [0, 0, 3], [[0, 0, -300.0]]])
    distance = np.sort(np.linalg.norm(points[:, None] - points, axis=-1), axis=1)[:, 1:4].mean(axis=1)
    pixel = -points[:, 2] / FOCAL
    sizes = point_sizes(points, (camera_at(0, 0),))
    np.testing.assert_allclose(sizes, np.clip(distance, 0.1 * pixel, 8 * pixel), rtol=1e-5)
    assert sizes[-1] < distance[-1] / 5  # the one alone in the void does not veil the picture
    assert point_sizes(points[:2], ()).shape == (2,) and point_sizes(points[:1], ()).shape == (1,)


def test_sharpness_falls_with_blur(scene):
    sharp = paint(scene.camera(0)).mean(axis=-1)[None].astype(np.float32)
    assert (local_sharpness(sharp) > local_sharpness(box_mean(sharp, 2).astype(np.float32))).mean() > 0.95


def test_fewer_points_keep_the_spread(scene):
    views = prepare(scene)
    disparity = sweep(views, np.zeros_like(views.grey))
    (many, _), (few, _) = fuse(views, disparity, 10**6), fuse(views, disparity, 400)
    assert len(few) == 400 < len(many)
    assert np.abs((few[:, 2] > -4).mean() - (many[:, 2] > -4).mean()) < 0.05


def test_who_compiles_and_who_finds_it_compiled_get_the_same(tmp_path):
    """Kernels are compiled in one process and read from its cache in the next: the same numbers, to the last bit."""
    program = (
        "import hashlib; from dofnerf import scenes; from dofnerf.models.splat.start.sweep import sparse_anchors, "
        "sweep;"
        "from dofnerf.models.splat.start.views import prepare; scene = scenes.demo(width=40); views = prepare(scene, "
        "2, 8);"
        "print(hashlib.sha256(sweep(views, sparse_anchors(scene, views)).tobytes()).hexdigest())"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert any(tmp_path.rglob("*.nbi"))
    assert told[0] == told[1]
