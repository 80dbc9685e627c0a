"""The training photos prepared for the plane sweep: resized, grey, stacked, each with its neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dofnerf.camera import Camera
from dofnerf.scenes.scene import Scene
from dofnerf.scenes.source import resize

LARGEST = 60_000  # pixels of a photo in the sweep; more would not give more points
FARTHEST = 1e4  # times `near`: no parallax is left beyond
_WIDEST = 0.7  # cosine of the largest angle between the axes of two photos that are compared
_HALF = 3  # sharpness is over a window of 7 pixels
_NOISE = 1e-5  # sharpness of a flat region


@dataclass(frozen=True)
class Views:
    """V photos of one size: `photos` (V, H, W, 3) and `grey` (V, H, W) float32; `frames` are their scene indices.
    `counts` (V, H, W) are their masks.

    `neighbours` (V, K) are indices of views, nearest first, padded with −1. `maps` (V, K, 3, 4) take (x, y, 1, δ) of a
    view to the homogeneous pixel of its neighbour, where the disparity is δ over the third coordinate. `planes` (V, D)
    are the disparities to try, ascending.
    """

    photos: np.ndarray
    grey: np.ndarray
    cameras: tuple[Camera, ...]
    frames: tuple[int, ...]
    neighbours: np.ndarray
    maps: np.ndarray
    planes: np.ndarray
    counts: np.ndarray


def prepare(scene: Scene, neighbours: int = 8, planes: int = 64, pixels: int = LARGEST) -> Views:
    """The training photos of `scene`, each with at most so many `pixels`."""
    width, height = scene.size
    shrink = min(1.0, (pixels / (width * height)) ** 0.5)
    size = max(8, round(width * shrink)), max(8, round(height * shrink))
    cameras = tuple(scene.camera(i).resized(*size) for i in scene.train)
    photos = np.stack([scene.shrunk(i, *size) for i in scene.train])
    counts = np.ones(photos.shape[:3], dtype=bool)
    for v, i in enumerate(scene.train):
        if (mask := scene.mask(i)) is not None:
            counts[v] = resize(mask, *size)
    near, far = scene.near, min(scene.far, FARTHEST * scene.near)
    beside = choose_neighbours(cameras, near, neighbours)
    maps = np.zeros((*beside.shape, 3, 4), dtype=np.float32)
    for v, row in enumerate(beside):
        for k, n in enumerate(row):
            if n >= 0:
                maps[v, k] = between(cameras[v], cameras[n])
    stack = np.tile(np.linspace(1 / far, 1 / near, planes, dtype=np.float32), (len(cameras), 1))
    grey = photos @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    return Views(photos, np.ascontiguousarray(grey), cameras, scene.train, beside, maps, stack, counts)


def choose_neighbours(cameras: tuple[Camera, ...], near: float, count: int) -> np.ndarray:
    """(V, count) int64: for each camera the nearest others with a similar axis and some baseline, padded with −1."""
    result = np.full((len(cameras), count), -1, dtype=np.int64)
    places, axes = np.stack([c.position for c in cameras]), np.stack([c.forward for c in cameras])
    for v in range(len(cameras)):
        distance = np.linalg.norm(places - places[v], axis=1)
        # The parallax must be half a pixel at `near` or more; near 0 asks for any baseline.
        fit = (axes @ axes[v] > _WIDEST) & (distance * cameras[v].fx > 0.5 * near) & (distance > 1e-9 * distance.max())
        order = [n for n in np.argsort(distance, kind="stable") if fit[n] and n != v][:count]
        result[v, : len(order)] = order
    return result


def between(camera: Camera, other: Camera) -> np.ndarray:
    """(3, 4): (column, row, 1, disparity) of `camera` → homogeneous pixel of `other`; the third is the depth ratio."""
    unproject = np.array(
        [[1 / camera.fx, 0, -camera.cx / camera.fx], [0, -1 / camera.fy, camera.cy / camera.fy], [0, 0, -1]],
        dtype=np.float64,
    )
    project = np.array([[other.fx, 0, -other.cx], [0, -other.fy, -other.cy], [0, 0, -1]], dtype=np.float64)
    turn = other.camera_to_world[:, :3].T
    rotation = turn @ camera.camera_to_world[:, :3] @ unproject
    shift = turn @ (camera.position - other.position)
    return project @ np.concatenate([rotation, shift[:, None]], axis=1)


def local_sharpness(grey: np.ndarray) -> np.ndarray:
    """Sharpness (V, H, W) float32 of `grey` (V, H, W): local mean square of the second difference, positive."""
    edge = np.pad(grey, ((0, 0), (1, 1), (1, 1)), mode="edge")
    around = edge[:, :-2, 1:-1] + edge[:, 2:, 1:-1] + edge[:, 1:-1, :-2] + edge[:, 1:-1, 2:]
    return (box_mean((around / 4 - grey) ** 2, _HALF) + _NOISE).astype(np.float32)


def box_mean(values: np.ndarray, half: int) -> np.ndarray:
    """Mean of (V, H, W) over windows of 2·half + 1 pixels, the border replicated."""
    for axis in (1, 2):
        widths = [(0, 0)] * 3
        widths[axis] = (half + 1, half)
        sums = np.cumsum(np.pad(values, widths, mode="edge"), axis=axis, dtype=np.float64)
        size = values.shape[axis]
        high = np.take(sums, np.arange(2 * half + 1, 2 * half + 1 + size), axis=axis)
        values = (high - np.take(sums, np.arange(size), axis=axis)) / (2 * half + 1)
    return values
