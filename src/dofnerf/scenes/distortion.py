"""Lens distortion, and pictures without it.

A pinhole ray (x, y) = (X, Y)/Z, y down, lands on a real sensor at

    x' = x·(1 + k1 r² + k2 r⁴ + k3 r⁶) + 2 p1 x y + p2 (r² + 2 x²)        r² = x² + y²
    y' = y·(1 + k1 r² + k2 r⁴ + k3 r⁶) + p1 (r² + 2 y²) + 2 p2 x y

in units of the focal length: OpenCV's model, of which COLMAP's SIMPLE_RADIAL and RADIAL are special cases. The
undistorted picture keeps the size and the principal point and gets a slightly longer or shorter focal length (`zoom`),
the shortest one that leaves no blank corner.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dofnerf.camera import Camera
from dofnerf.scenes.source import Derived, Source, eroded

ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class Distortion:
    """Radial k1, k2, k3 and tangential p1, p2; no unit."""

    k1: float = 0.0
    k2: float = 0.0
    p1: float = 0.0
    p2: float = 0.0
    k3: float = 0.0

    def __bool__(self) -> bool:
        return any((self.k1, self.k2, self.p1, self.p2, self.k3))

    def bend(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pinhole ray → where it lands, both in units of the focal length, y down."""
        squared = x * x + y * y
        radial = 1 + squared * (self.k1 + squared * (self.k2 + squared * self.k3))
        return (
            x * radial + 2 * self.p1 * x * y + self.p2 * (squared + 2 * x * x),
            y * radial + self.p1 * (squared + 2 * y * y) + 2 * self.p2 * x * y,
        )


@dataclass(frozen=True)
class Undistorted(Derived):
    """A photo undistorted on load; `focal`, `centre` (px) are the distorted photo's, `zoom` scales the focal length."""

    distortion: Distortion
    focal: tuple[float, float]
    centre: tuple[float, float]
    zoom: float

    def load(self) -> np.ndarray:
        image = self.source.load()
        if image.dtype == bool:
            image = eroded(image, 2)  # so far does a cubic sample of a photo reach
        height, width = image.shape[:2]
        result = np.empty_like(image)
        sample = sample_cubic if image.ndim == 3 else _sample_nearest
        columns = np.arange(width) + 0.5
        for top in range(0, height, ROWS_AT_ONCE):
            rows = np.arange(top, min(top + ROWS_AT_ONCE, height)) + 0.5
            column, row = _bent_pixels(self, *np.meshgrid(columns, rows))
            result[top : top + ROWS_AT_ONCE] = sample(image, column, row)
        return result


def _bent_pixels(photo: Undistorted, column: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pixels of the undistorted picture → the same rays' pixels in the distorted one."""
    (fx, fy), (cx, cy) = photo.focal, photo.centre
    x, y = photo.distortion.bend((column - cx) / (fx * photo.zoom), (row - cy) / (fy * photo.zoom))
    return cx + fx * x, cy + fy * y


def straighten(camera: Camera, distortion: Distortion, where: str) -> tuple[Camera, float]:
    """The pinhole camera of the undistorted picture, and its zoom (1 without distortion)."""
    if not distortion:
        return camera, 1.0
    zoom, trouble = _zoom(distortion, (camera.fx, camera.fy), (camera.cx, camera.cy), camera.width, camera.height)
    if trouble:
        raise ValueError(f"{where}: the distortion {distortion} {trouble}; check its numbers")
    return replace(camera, fx=camera.fx * zoom, fy=camera.fy * zoom), zoom


def undistorted(source: Source, distortion: Distortion, camera: Camera, zoom: float) -> Source:
    """The picture without distortion, if it has any; `camera` is the distorted picture's."""
    focal, centre = (camera.fx, camera.fy), (camera.cx, camera.cy)
    return Undistorted(source, distortion, focal, centre, zoom) if distortion else source


@lru_cache(maxsize=256)
def _zoom(
    distortion: Distortion, focal: tuple[float, float], centre: tuple[float, float], width: int, height: int
) -> tuple[float, str]:
    """The least zoom that leaves no blank corner, and what is wrong, if anything."""
    photo = Undistorted(None, distortion, focal, centre, 1.0)  # type: ignore[arg-type]  # never loaded
    steps = np.linspace(0, 1, 65)
    edges = [(steps * 0, steps), (steps * 0 + 1, steps), (steps, steps * 0), (steps, steps * 0 + 1)]
    column, row = (np.concatenate([edge[axis] for edge in edges]) for axis in (0, 1))
    zooms = np.geomspace(2.0, 0.6, 400)
    cx, cy = centre
    with np.errstate(over="ignore", invalid="ignore"):
        # A longer focal length is the same as a picture shrunk about its principal point.
        places = cx + (column * width - cx) / zooms[:, None], cy + (row * height - cy) / zooms[:, None]
        u, v = _bent_pixels(photo, *places)
        fits = np.asarray((u >= -0.5) & (u <= width + 0.5) & (v >= -0.5) & (v <= height + 0.5)).all(axis=-1).reshape(-1)
        if not fits[0]:
            return 1.0, "is too strong to straighten the photo"
        zoom = float(zooms[-1] if fits.all() else zooms[np.argmin(fits) - 1])
        u, v = _bent_pixels(replace(photo, zoom=zoom), *np.meshgrid(steps * width, steps * height))
        area = np.diff(u, axis=1)[:-1] * np.diff(v, axis=0)[:, :-1]
        area = area - np.diff(u, axis=0)[:, :-1] * np.diff(v, axis=1)[:-1]
    return zoom, "" if (area > 0).all() else "folds the photo over itself"


def sample_cubic(image: np.ndarray, column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Catmull-Rom samples (…, 3) of a photo (H, W, 3) at pixel positions (…); centres at +0.5, edges repeated."""
    height, width = image.shape[:2]
    left, top = np.floor(column - 0.5).astype(np.int64), np.floor(row - 0.5).astype(np.int64)
    across = catmull_rom((column - 0.5 - left).astype(np.float32))
    down = catmull_rom((row - 0.5 - top).astype(np.float32))
    columns = [np.clip(left + i - 1, 0, width - 1) for i in range(4)]
    result = np.zeros((*column.shape, image.shape[2]), dtype=np.float32)
    for j in range(4):
        rows = np.clip(top + j - 1, 0, height - 1)
        for i in range(4):
            result += (across[i] * down[j])[..., None] * image[rows, columns[i]]
    return np.clip(result, 0, 1)


def catmull_rom(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The weights of the four neighbours at fraction t between the middle two."""
    return (
        0.5 * t * ((2 - t) * t - 1),
        0.5 * (t * t * (3 * t - 5) + 2),
        0.5 * t * ((4 - 3 * t) * t + 1),
        0.5 * t * t * (t - 1),
    )


def _sample_nearest(image: np.ndarray, column: np.ndarray, row: np.ndarray) -> np.ndarray:
    height, width = image.shape[:2]
    return image[np.clip(row.astype(np.int64), 0, height - 1), np.clip(column.astype(np.int64), 0, width - 1)]
