"""How large a splat at each point should begin: as far as its neighbours are."""

from __future__ import annotations

import numpy as np

from dofnerf.camera import Camera
from dofnerf.optics.kernels import compiled, run_jobs

_LARGEST = 8.0  # pixels of the nearest camera: a point alone in the void must not veil a picture


def point_sizes(points: np.ndarray, cameras: tuple[Camera, ...]) -> np.ndarray:
    """The mean distance (N,) float32 to the three nearest points, no more than `_LARGEST` pixels for any camera."""
    pixel = np.full(len(points), np.inf)
    for camera in cameras:
        pixels, depth = camera.project(points)
        inside = (depth > 0) & (pixels >= 0).all(axis=1) & (pixels < (camera.width, camera.height)).all(axis=1)
        pixel[inside] = np.minimum(pixel[inside], depth[inside] / max(camera.fx, camera.fy))
    # Sorted along their longest axis, the nearest are among the next few.
    axis = int(np.argmax(np.ptp(points, axis=0))) if len(points) else 0
    order = np.argsort(points[:, axis], kind="stable")
    along = np.ascontiguousarray(np.roll(points[order], -axis, axis=1))
    sizes = np.zeros(len(points))
    if len(points) > 1:
        run_jobs(_near, len(points), (along, sizes))
    out = np.empty(len(points), dtype=np.float32)
    out[order] = sizes
    seen = np.isfinite(pixel)
    out[seen] = np.clip(out[seen], 0.1 * pixel[seen], _LARGEST * pixel[seen])
    return np.maximum(out, np.float32(1e-9))


@compiled
def _near(first, last, points, sizes):
    """Points (N, 3) sorted by their first coordinate; `sizes` (N,): mean distance to the three nearest, or to all there
    are."""
    count = len(points)
    wanted = min(3, count - 1)
    best = np.empty(3)
    for i in range(first, last):
        best[:] = np.inf
        left, right = i - 1, i + 1
        while left >= 0 or right < count:
            toward_left = right >= count or (
                left >= 0 and points[i, 0] - points[left, 0] <= points[right, 0] - points[i, 0]
            )
            j = left if toward_left else right
            gap = points[j, 0] - points[i, 0]
            if gap * gap > best[wanted - 1]:
                break
            away = gap * gap + (points[j, 1] - points[i, 1]) ** 2 + (points[j, 2] - points[i, 2]) ** 2
            for k in range(wanted):
                if away < best[k]:
                    best[k], away = away, best[k]
            if toward_left:
                left -= 1
            else:
                right += 1
        total = 0.0
        for k in range(wanted):
            total += np.sqrt(best[k])
        sizes[i] = total / wanted
