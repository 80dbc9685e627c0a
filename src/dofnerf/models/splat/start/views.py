"""The training photos as the plane sweep wants them: small, grey, stacked, and each with its neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dofnerf.camera import Camera
from dofnerf.scenes.scene import Scene
from dofnerf.scenes.source import resize

LARGEST = 60_000  # pixels of a photo that is swept; points are fewer than that anyway
FARTHEST = 1e4  # times `near`: there a point is at infinity, for parallax
_WIDEST = 0.7  # cosine of the largest angle between the axes of two photos that are compared


@dataclass(frozen=True)
class Views:
    """V photos of one size: `photos` (V, H, W, 3) and `grey` (V, H, W) float32; `frames` are their numbers in the
    scene.

    `neighbours` (V, K) are numbers of views, nearest first, −1 where there are fewer; `maps` (V, K, 3, 4) take (x, y,
    1, δ) of a view to the homogeneous pixel of its neighbour, whose disparity is δ over the third coordinate. `planes`
    (V, D) are the disparities to try, rising.
    """

    photos: np.ndarray
    grey: np.ndarray
    cameras: tuple[Camera, ...]
    frames: tuple[int, ...]
    neighbours: np.ndarray
    maps: np.ndarray
    planes: np.ndarray


def prepare(scene: Scene, neighbours: int = 8, planes: int = 64) -> Views:
    """The training photos of `scene`, shrunk to `LARGEST` pixels."""
    width, height = scene.size
    shrink = min(1.0, (LARGEST / (width * height)) ** 0.5)
    size = max(8, round(width * shrink)), max(8, round(height * shrink))
    cameras = tuple(scene.camera(i).resized(*size) for i in scene.train)
    photos = np.stack([resize(scene.photo(i), *size) for i in scene.train]).astype(np.float32)
    near, far = scene.near, min(scene.far, FARTHEST * scene.near)
    beside = choose_neighbours(cameras, near, neighbours)
    maps = np.zeros((*beside.shape, 3, 4), dtype=np.float32)
    for v, row in enumerate(beside):
        for k, n in enumerate(row):
            if n >= 0:
                maps[v, k] = between(cameras[v], cameras[n])
    stack = np.tile(np.linspace(1 / far, 1 / near, planes, dtype=np.float32), (len(cameras), 1))
    grey = photos @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    return Views(photos, np.ascontiguousarray(grey), cameras, scene.train, beside, maps, stack)


def choose_neighbours(cameras: tuple[Camera, ...], near: float, count: int) -> np.ndarray:
    """For each camera the nearest ones that look about the same way from another place, (V, count) int64, −1 for
    nobody."""
    result = np.full((len(cameras), count), -1, dtype=np.int64)
    places, axes = np.stack([c.position for c in cameras]), np.stack([c.forward for c in cameras])
    for v in range(len(cameras)):
        distance = np.linalg.norm(places - places[v], axis=1)
        # Without a baseline there is no parallax: half a pixel at `near` is the least.
        fit = (axes @ axes[v] > _WIDEST) & (distance * cameras[v].fx / near > 0.5)
        order = [n for n in np.argsort(distance, kind="stable") if fit[n] and n != v][:count]
        result[v, : len(order)] = order
    return result


def between(camera: Camera, other: Camera) -> np.ndarray:
    """(3, 4): (column, row, 1, disparity) of `camera` → homogeneous pixel of `other`, its third the ratio of the
    depths."""
    unproject = np.array(
        [[1 / camera.fx, 0, -camera.cx / camera.fx], [0, -1 / camera.fy, camera.cy / camera.fy], [0, 0, -1]],
        dtype=np.float64,
    )
    project = np.array([[other.fx, 0, -other.cx], [0, -other.fy, -other.cy], [0, 0, -1]], dtype=np.float64)
    turn = other.camera_to_world[:, :3].T
    rotation = turn @ camera.camera_to_world[:, :3] @ unproject
    shift = turn @ (camera.position - other.position)
    return project @ np.concatenate([rotation, shift[:, None]], axis=1)
