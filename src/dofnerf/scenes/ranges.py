"""How near and how far a scene reaches: as given, from its sparse points, or guessed from where the cameras look."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dofnerf.camera import Camera
from dofnerf.scenes.scene import Frame, Points


def depth_range(depth: np.ndarray) -> tuple[float, float] | None:
    """All but the outermost 0.1 % of the depths in front of the camera, as LLFF does."""
    depth = depth[depth > 0]
    if len(depth) < 2:
        return None
    near, far = np.percentile(depth, [0.1, 99.9])
    return (float(near), float(far)) if 0 < near < far else None


def with_bounds(
    frames: list[Frame], points: Points | None, whole: tuple[float, float] | None, where: str
) -> tuple[list[Frame], tuple[float, float], tuple[str, ...]]:
    """The frames with their depth ranges (given, or of the points that they see), the scene's, and a note if that is a
    guess.

    `whole` is the range that the file gives for the scene, if it does.
    """
    result = []
    for i, frame in enumerate(frames):
        total = 0 if points is None else len(points)
        if frame.seen is not None and len(frame.seen) and not 0 <= frame.seen.min() <= frame.seen.max() < total:
            raise ValueError(f"{where}: frame {i} ({frame.name}): a visible point's number is not below {total}")
        own = frame.bounds
        if own is None and points is not None:
            pixels, depth = frame.camera.project(points.xyz if frame.seen is None else points.xyz[frame.seen])
            inside_photo = (pixels >= 0).all(axis=1) & (pixels < (frame.camera.width, frame.camera.height)).all(axis=1)
            own = depth_range(depth[inside_photo])
        result.append(replace(frame, bounds=own))
    ranges = [frame.bounds for frame in result if frame.bounds]
    if whole is not None:
        return result, whole, ()
    if ranges:
        return result, (min(r[0] for r in ranges), max(r[1] for r in ranges)), ()
    note = "the file gives no depth range (near, far): this one is a guess from where the cameras look"
    return result, guess([frame.camera for frame in frames]), (note,)


def guess(cameras: list[Camera]) -> tuple[float, float]:
    """Half to one and a half times the distance to the point where the optical axes come closest; Blender's 2 to 6 at
    4."""
    axes, places = np.stack([c.forward for c in cameras]), np.stack([c.position for c in cameras])
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    target = np.linalg.lstsq(across.sum(0), (across @ places[..., None])[..., 0].sum(0), rcond=1e-6)[0]
    depth = ((target - places) * axes).sum(axis=1)
    if depth.min() > 0:
        return 0.5 * float(depth.min()), 1.5 * float(depth.max())
    spread = float(np.linalg.norm(places - places.mean(0), axis=1).max()) or 1.0
    return spread, 100 * spread
