"""A posed pinhole camera: the one convention inside.

OpenGL axes: x right, y up, the camera looks along −z. `camera_to_world` maps camera to world coordinates. Pixel
(column, row) has its centre at (column + 0.5, row + 0.5). `depth` is the distance along the optical axis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.transform import Rotation

FULL_FRAME = 36.0  # millimetres along the longer side of a sensor, where nothing says how large it is


@dataclass(frozen=True)
class Camera:
    """`camera_to_world` float64 (3, 4); focal lengths `fx`, `fy` and principal point `cx`, `cy` in pixels."""

    camera_to_world: np.ndarray
    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int

    @property
    def position(self) -> np.ndarray:
        """The centre of the lens in world coordinates, (3,)."""
        return self.camera_to_world[:, 3]

    @property
    def forward(self) -> np.ndarray:
        """The optical axis in world coordinates, unit, (3,)."""
        return -self.camera_to_world[:, 2]

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """World points (N, 3) → pixels (N, 2) as (column, row), and depth (N,); depth ≤ 0 is behind the camera."""
        local = (points - self.position) @ self.camera_to_world[:, :3]
        depth = -local[:, 2]
        safe = np.where(np.abs(depth) < 1e-12, 1e-12, depth)
        pixels = np.stack([self.cx + self.fx * local[:, 0] / safe, self.cy - self.fy * local[:, 1] / safe], axis=-1)
        return pixels, depth

    def contains(self, pixels: np.ndarray) -> np.ndarray:
        """Which pixels (N, 2) as (column, row) lie in the picture, (N,) bool."""
        return np.all((pixels >= 0) & (pixels < (self.width, self.height)), axis=1)

    def unproject(self, pixels: np.ndarray, depth: np.ndarray) -> np.ndarray:
        """Pixels (N, 2) as (column, row) at `depth` (N,) along the axis → world points (N, 3)."""
        x = (pixels[:, 0] - self.cx) / self.fx * depth
        y = -(pixels[:, 1] - self.cy) / self.fy * depth
        local = np.stack([x, y, -depth], axis=-1)
        return local @ self.camera_to_world[:, :3].T + self.position

    def tangents(self) -> np.ndarray:
        """(H, W, 2): x / depth and y / depth, x right and y up, of what each pixel's centre sees."""
        x = (np.arange(self.width) + 0.5 - self.cx) / self.fx
        y = (self.cy - np.arange(self.height) - 0.5) / self.fy
        return np.stack(np.meshgrid(x, y), axis=-1)

    def resized(self, width: int, height: int | None = None) -> Camera:
        """The same camera for a picture of another size; without `height`, of the same proportions."""
        height = max(1, round(self.height * width / self.width)) if height is None else height
        sx, sy = width / self.width, height / self.height
        return replace(
            self, fx=self.fx * sx, fy=self.fy * sy, cx=self.cx * sx, cy=self.cy * sy, width=width, height=height
        )

    def cropped(self, left: int, top: int, width: int, height: int) -> Camera:
        """The same camera for a part of its picture."""
        return replace(self, cx=self.cx - left, cy=self.cy - top, width=width, height=height)


def moved(camera: Camera, turn: np.ndarray, shift: np.ndarray) -> Camera:
    """The camera turned by a rotation vector about its centre, and shifted, both in world axes."""
    matrix = camera.camera_to_world.copy()
    matrix[:, :3] = Rotation.from_rotvec(turn).as_matrix() @ matrix[:, :3]
    matrix[:, 3] += shift
    return replace(camera, camera_to_world=matrix)


def zoomed(camera: Camera, factor: float) -> Camera:
    """The camera with a focal length so many times as long."""
    return replace(camera, fx=camera.fx * factor, fy=camera.fy * factor)


def motion(before: Camera, after: Camera) -> tuple[np.ndarray, np.ndarray]:
    """The rotation vector and the shift, both in world axes, that bring one camera to another."""
    turn = after.camera_to_world[:, :3] @ before.camera_to_world[:, :3].T
    return Rotation.from_matrix(turn).as_rotvec(), after.position - before.position
