"""Where a camera goes in a film: each path is cameras around the one it begins with, `pivot` being the point that they
look at.

The way back is part of a path, so that its last frame leads to its first, unless it goes `once`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dofnerf.camera import Camera

_ROUNDS = 2  # of a spiral
_OUTER = 80  # percentile: how far out the ellipse lies among the photos' cameras


def there_and_back(frames: int, once: bool) -> np.ndarray:
    """Shares 0 … 1 (frames,), slow at the ends: from 0 to 1, and back in a loop unless `once`."""
    step = np.arange(frames)
    phase = step * (math.pi / max(frames - 1, 1)) if once else step * (2 * math.pi / frames)
    return (1 - np.cos(phase)) / 2


def around(frames: int, once: bool) -> np.ndarray:
    """Angles (frames,) of one full turn; the last frame of a loop is a step before the first."""
    return np.arange(frames) * (2 * math.pi / (max(frames - 1, 1) if once else frames))


def spiral(camera: Camera, pivot: np.ndarray, frames: int, reach: float, once: bool) -> list[Camera]:
    """Two rounds in the camera's plane, `reach` (scene units) wide, that go forth and back as they turn."""
    cameras = []
    for angle in around(frames, once):
        turn = _ROUNDS * angle
        local = reach * np.array([math.cos(turn) - 1, math.sin(turn), 0.5 * math.sin(angle)])
        cameras.append(facing(camera, camera.position + camera.camera_to_world[:, :3] @ local, pivot))
    return cameras


def orbit(camera: Camera, pivot: np.ndarray, frames: int, degrees: float, once: bool) -> list[Camera]:
    """Around the pivot, about the camera's upward axis: full circles from 360 degrees on, else a swing of so many."""
    angles = around(frames, once)
    turns = angles * round(degrees / 360) if degrees >= 360 else np.sin(angles) * math.radians(degrees) / 2
    up = camera.camera_to_world[:, 1]
    return [facing(camera, pivot + turned(camera.position - pivot, up, float(angle)), pivot) for angle in turns]


def ellipse(camera: Camera, pivot: np.ndarray, frames: int, others: Sequence[Camera], once: bool) -> list[Camera]:
    """Between the cameras of the photos: in the plane that they lie in most, as wide and high as four fifths of
    them."""
    places = np.stack([other.position for other in others])
    middle = places.mean(0)
    axes = np.linalg.svd(places - middle)[2][:2]
    local = (places - middle) @ axes.T
    wide, high = np.percentile(np.abs(local), _OUTER, axis=0)
    up = np.mean([other.camera_to_world[:, 1] for other in others], axis=0)
    return [
        facing(camera, middle + wide * math.cos(angle) * axes[0] + high * math.sin(angle) * axes[1], pivot, up)
        for angle in around(frames, once)
    ]


def dolly_zoom(camera: Camera, pivot: np.ndarray, frames: int, zoom: float, once: bool) -> list[Camera]:
    """Away from the pivot until it is `zoom` times as far, while the focal length grows as much: what lies at its depth
    stays as it is, and the rest is pressed together (or, below 1, pulled apart)."""
    depth = float((pivot - camera.position) @ camera.forward)
    cameras = []
    for share in there_and_back(frames, once):
        scale = float(zoom**share)
        pose = camera.camera_to_world.copy()
        pose[:, 3] -= camera.forward * depth * (scale - 1)
        cameras.append(replace(camera, camera_to_world=pose, fx=camera.fx * scale, fy=camera.fy * scale))
    return cameras


def facing(camera: Camera, place: np.ndarray, target: np.ndarray, up: np.ndarray | None = None) -> Camera:
    """The camera moved to a place, with the target in the middle of its picture."""
    up = camera.camera_to_world[:, 1] if up is None else up
    back = place - target
    length = float(np.linalg.norm(back))
    if length < 1e-9:
        raise ValueError("the path goes through the point that the camera looks at: take it smaller, or another --view")
    back = back / length
    right = np.cross(up, back)
    right = right / np.linalg.norm(right)
    return replace(camera, camera_to_world=np.stack([right, np.cross(back, right), back, place], axis=1))


def turned(vector: np.ndarray, axis: np.ndarray, angle: float) -> np.ndarray:
    """A vector (3,) rotated about a unit axis (Rodrigues)."""
    along = axis * (axis @ vector)
    return along + (vector - along) * math.cos(angle) + np.cross(axis, vector) * math.sin(angle)
