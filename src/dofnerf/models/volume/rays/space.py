"""The space in which a field lives: the world, warped into the cube [−1, 1]³, and how samples are spaced along a ray.

Two warps. *Forward*: (x/z, y/z, 1/z) in the frame of a reference camera that sees what all cameras see, scaled to a
tight box: NDC. Straight lines stay straight, and far things get as few cells as pixels. *General*: the world around a
centre, |x| ≤ 1 unchanged and everything beyond contracted into 1 < |x| < 2 (mip-NeRF 360), then halved. Directions,
distances and depth remain those of the world.

Spacing. s from 0 (near) to 1 (far) is linear in 1 / (depth + offset): offset 0 is linear in disparity, in which blur
and parallax are linear; a large offset is linear in depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera

Kind = Literal["forward", "general"]

_FARTHEST = 1e4  # times `near`: no parallax or change of blur is left beyond
_WIDEST = 0.7  # cosine of the largest angle between the axes of forward-facing cameras
_MARGIN = 0.02  # of the box, around what the cameras see, so that lens rays stay inside
Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Space:
    """Plain numbers, so that a checkpoint can hold it.

    `frame`: three rows of (axis, shift), world → local coordinates. `low`, `high`: the box of a forward space. `near`,
    `far` depths; `offset` of the spacing; `unit` the length in which fields measure distance: their density is per
    `unit`.
    """

    kind: Kind
    near: float
    far: float
    frame: tuple[tuple[float, float, float, float], ...]
    low: Vector = (-1.0, -1.0, -1.0)
    high: Vector = (1.0, 1.0, 1.0)
    offset: float = 0.0
    unit: float = 1.0

    def warp(self, points: Tensor) -> Tensor:
        """World points (…, 3) → the cube, (…, 3); gradients pass. Points that no camera sees may land outside."""
        frame = points.new_tensor(self.frame)
        local = points @ frame[:, :3].T + frame[:, 3]
        if self.kind == "forward":
            low, high = points.new_tensor(self.low), points.new_tensor(self.high)
            disparity = 1 / local[..., 2:].clamp(min=0.5 / self.high[2])
            projected = torch.cat([local[..., :2] * disparity, disparity], dim=-1)
            return (projected - low) * (2 / (high - low)) - 1
        norm = local.norm(dim=-1, keepdim=True).clamp(min=1.0)
        return local * ((2 - 1 / norm) / norm / 2)

    def depth_of(self, s: Tensor) -> Tensor:
        """Depth of the places s in [0, 1] along a ray."""
        first, last = 1 / (self.near + self.offset), 1 / (self.far + self.offset)
        return 1 / (first + (last - first) * s) - self.offset


def choose_space(cameras: Sequence[Camera], near: float, far: float, kind: Kind | Literal["auto"] = "auto") -> Space:
    """The space for these cameras and depth range (far may be infinite): forward if they all look the same way."""
    if not cameras:
        raise ValueError("a space needs cameras")
    if not 0 < near < far:
        raise ValueError(f"the depth range must be 0 < near < far, found {near:g} … {far:g}")
    if kind not in ("auto", "forward", "general"):
        raise ValueError(f"space must be auto, forward or general, found {kind!r}")
    far = min(far, _FARTHEST * near)
    if kind == "auto":
        kind = "forward" if _face_forward(cameras, near) else "general"
    return _forward_space(cameras, near, far) if kind == "forward" else _general_space(cameras, near, far)


def _face_forward(cameras: Sequence[Camera], near: float) -> bool:
    """All axes within 45° of their mean, and positions along it closer than `near`, so that no camera sees another."""
    axis = _mean_axis(cameras)
    if min(float(camera.forward @ axis) for camera in cameras) < _WIDEST:
        return False
    along = np.array([camera.position @ axis for camera in cameras])
    return float(along.max() - along.min()) < near


def _mean_axis(cameras: Sequence[Camera]) -> np.ndarray:
    mean = np.mean([camera.forward for camera in cameras], axis=0)
    norm = float(np.linalg.norm(mean))
    return mean / norm if norm > 1e-6 else cameras[0].forward


def _forward_space(cameras: Sequence[Camera], near: float, far: float) -> Space:
    axis = _mean_axis(cameras)
    up = np.mean([camera.camera_to_world[:, 1] for camera in cameras], axis=0)
    right = np.cross(axis, up)
    if np.linalg.norm(right) < 1e-6:
        right = cameras[0].camera_to_world[:, 0] - axis * (cameras[0].camera_to_world[:, 0] @ axis)
    right = right / np.linalg.norm(right)
    axes = np.stack([right, np.cross(right, axis), axis])
    corners = np.concatenate([_corners(camera, depth) for camera in cameras for depth in (near, far)])
    centre = np.mean([camera.position for camera in cameras], axis=0)
    # Step back until everything seen lies well in front of the reference camera: x/z must stay bounded.
    behind = max(0.0, near / 2 - float(((corners - centre) @ axis).min()))
    centre = centre - behind * axis
    local = (corners - centre) @ axes.T
    projected = np.concatenate([local[:, :2], np.ones((len(local), 1))], axis=1) / local[:, 2:]
    low, high = projected.min(axis=0), projected.max(axis=0)
    margin = _MARGIN * (high - low)
    low, high = low - margin, high + margin
    frame = np.concatenate([axes, -(axes @ centre)[:, None]], axis=1)
    unit = 1 / (1 / near - 1 / far)
    return Space("forward", near, far, _rows(frame), _vector(low), _vector(high), 0.0, unit)


def _corners(camera: Camera, depth: float) -> np.ndarray:
    """The photo's corners at `depth`, (4, 3)."""
    pixels = np.array([(x, y) for x in (0, camera.width) for y in (0, camera.height)], dtype=float)
    return camera.unproject(pixels, np.full(4, depth))


def _general_space(cameras: Sequence[Camera], near: float, far: float) -> Space:
    places = np.stack([camera.position for camera in cameras])
    axes = np.stack([camera.forward for camera in cameras])
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    centre = np.linalg.lstsq(across.sum(0), (across @ places[..., None])[..., 0].sum(0), rcond=1e-6)[0]
    if float(((centre - places) * axes).sum(axis=1).mean()) <= 0:
        centre = places.mean(axis=0)  # they face outwards
    radius = max(float(np.linalg.norm(places - centre, axis=1).max()) - near, near)
    frame = np.concatenate([np.eye(3), -centre[:, None]], axis=1) / radius
    return Space("general", near, far, _rows(frame), offset=radius, unit=radius)


def _vector(values: np.ndarray) -> Vector:
    return float(values[0]), float(values[1]), float(values[2])


def _rows(matrix: np.ndarray) -> tuple[tuple[float, float, float, float], ...]:
    return tuple((float(a), float(b), float(c), float(d)) for a, b, c, d in matrix)
