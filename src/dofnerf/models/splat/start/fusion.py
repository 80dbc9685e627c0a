"""One cloud of points from the disparity maps of all photos.

A pixel is rated by the number of neighbours with the same disparity (votes), and by its photo's sharpness there
relative to the other photos of the same place (rank). The best pixels are taken first. Each covers the pixels of other
photos that show the same place, so that less certain pixels only fill what is left.
"""

from __future__ import annotations

import numpy as np

from dofnerf.models.splat.start.views import Views, local_sharpness
from dofnerf.optics.kernels import compiled, run_jobs

_TIERS = ((4, 0.3), (3, 0.3), (4, 0.0), (2, 0.3), (1, 0.3), (2, 0.0))  # least votes and rank, the most certain first
_AGREE = 0.5  # of the distance between two planes
_HIDDEN = 3.0  # planes by which something nearer occludes a point


def fuse(views: Views, disparity: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """At most about `count` points (N, 3) float64, spread evenly over the photos, and their colours (N, 3) float32."""
    sharpness = local_sharpness(views.grey) * views.counts
    gap, (votes, rank, refined) = _gap(views), _compared(views, disparity, sharpness)
    where = (views.neighbours, views.maps, _AGREE * gap)
    covered = np.zeros(disparity.shape, dtype=bool)
    chosen = np.zeros(disparity.shape, dtype=bool)
    for least_votes, least_rank in _TIERS:
        fit = (disparity > 0) & (votes >= least_votes) & (rank >= least_rank)
        _choose_pixels(disparity, fit, *where, covered, chosen)
    chosen = _thin(chosen, count)
    parts = []
    for v, camera in enumerate(views.cameras):
        rows, columns = np.nonzero(chosen[v])
        pixels = np.stack([columns + 0.5, rows + 0.5], axis=-1)
        parts.append(camera.unproject(pixels, 1 / refined[v, rows, columns].astype(np.float64)))
    points = np.concatenate(parts)
    return points, _sharpest_colours(views, points, disparity, sharpness, gap)


def agreement(views: Views, disparity: np.ndarray) -> np.ndarray:
    """How many neighbours come to the same disparity, (V, H, W) int32."""
    return _compared(views, disparity, local_sharpness(views.grey))[0]


def _compared(views: Views, disparity: np.ndarray, sharpness: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Votes, rank and refined disparity (V, H, W); see `_compare_photos`."""
    votes, rank = np.zeros(disparity.shape, dtype=np.int32), np.zeros_like(disparity)
    refined = np.zeros_like(disparity)
    where = (views.neighbours, views.maps, _AGREE * _gap(views))
    run_jobs(_compare_photos, len(disparity), (disparity, sharpness, *where, votes, rank, refined))
    return votes, rank, refined


def _gap(views: Views) -> np.ndarray:
    """Distance between two planes (V,), a disparity."""
    return ((views.planes[:, -1] - views.planes[:, 0]) / (views.planes.shape[1] - 1)).astype(np.float32)


def _sharpest_colours(
    views: Views, points: np.ndarray, disparity: np.ndarray, sharpness: np.ndarray, gap: np.ndarray
) -> np.ndarray:
    """Colours (N, 3) float32 of `points`, each from the sharpest photo in which it is not occluded."""
    best = np.zeros(len(points), dtype=np.float32)
    colours = np.full((len(points), 3), 0.5, dtype=np.float32)
    for v, camera in enumerate(views.cameras):
        pixels, depth = camera.project(points)
        ids = np.flatnonzero((depth > 0) & camera.contains(pixels))
        columns, rows = pixels[ids].astype(int).T
        sharp = sharpness[v, rows, columns]
        open_ = disparity[v, rows, columns] - 1 / depth[ids] < _HIDDEN * gap[v]
        sharp = np.where(open_, sharp, sharp * np.float32(1e-6))  # an occluded photo is better than none
        win = sharp > best[ids]
        best[ids[win]] = sharp[win]
        colours[ids[win]] = views.photos[v, rows[win], columns[win]]
    return colours


def _thin(chosen: np.ndarray, count: int) -> np.ndarray:
    """An evenly strided subset of the pixels `chosen` (V, H, W), `count` of them, along a Morton curve."""
    total = int(chosen.sum())
    if total <= count:
        return chosen
    view, rows, columns = np.nonzero(chosen)
    order = np.lexsort((_interleave(rows, columns), view))
    keep = order[np.floor(np.arange(count) * (total / count)).astype(np.int64)]
    thinned = np.zeros_like(chosen)
    thinned[view[keep], rows[keep], columns[keep]] = True
    return thinned


def _interleave(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Morton codes: the bits of rows and columns interleaved."""
    code = np.zeros(len(rows), dtype=np.int64)
    for bit in range(16):
        code |= ((rows >> bit) & 1) << (2 * bit + 1) | ((columns >> bit) & 1) << (2 * bit)
    return code


@compiled
def _compare_photos(first, last, disparity, sharpness, neighbours, maps, tolerance, votes, rank, refined):  # noqa: PLR0913, PLR0917
    """Votes, rank and refined disparity (V, H, W) of the pixels of photos [first, last).

    `votes` counts the neighbours whose own disparity at that place agrees within `tolerance` (V,). `rank` is this
    photo's sharpness over the largest among the photos of that place. `refined` is the mean of the disparities that
    agree, weighted by sharpness, since blur makes them less certain.
    """
    height, width = disparity.shape[1:]
    for v in range(first, last):
        for y in range(height):
            for x in range(width):
                own = disparity[v, y, x]
                count, best = 0, sharpness[v, y, x]
                weight = sharpness[v, y, x] + np.float32(1e-12)
                total = own * weight
                for k in range(neighbours.shape[1]):
                    n = neighbours[v, k]
                    if n < 0:
                        break
                    ratio, i, j = _place(maps[v, k], x, y, own)
                    if ratio <= 0 or not (0 <= i < width and 0 <= j < height):
                        continue
                    best = max(best, sharpness[n, j, i])
                    theirs = disparity[n, j, i] * ratio
                    if abs(theirs - own) < tolerance[v]:
                        count += 1
                        total += theirs * sharpness[n, j, i]
                        weight += sharpness[n, j, i]
                votes[v, y, x] = count
                rank[v, y, x] = sharpness[v, y, x] / max(best, np.float32(1e-12))
                refined[v, y, x] = total / weight


@compiled
def _choose_pixels(disparity, fit, neighbours, maps, tolerance, covered, chosen):
    """Mark in `chosen` (V, H, W) the pixels that are `fit` and not `covered`; each then covers itself in the
    neighbours."""
    count, height, width = disparity.shape
    for v in range(count):
        for y in range(height):
            for x in range(width):
                if not fit[v, y, x] or covered[v, y, x]:
                    continue
                chosen[v, y, x] = True
                covered[v, y, x] = True
                own = disparity[v, y, x]
                for k in range(neighbours.shape[1]):
                    n = neighbours[v, k]
                    if n < 0:
                        break
                    ratio, i, j = _place(maps[v, k], x, y, own)
                    if ratio <= 0 or not (0 <= i < width and 0 <= j < height):
                        continue
                    if abs(disparity[n, j, i] * ratio - own) < tolerance[v]:
                        covered[n, j, i] = True


@compiled
def _place(to, x, y, disparity):
    """The pixel (x, y) at `disparity` seen by a neighbour: ratio of the depths (≤ 0: behind it), column, row."""
    column, row = np.float32(x) + np.float32(0.5), np.float32(y) + np.float32(0.5)
    ratio = to[2, 0] * column + to[2, 1] * row + to[2, 2] + to[2, 3] * disparity
    if ratio <= 1e-6:
        return np.float32(0), 0, 0
    u = (to[0, 0] * column + to[0, 1] * row + to[0, 2] + to[0, 3] * disparity) / ratio
    v = (to[1, 0] * column + to[1, 1] * row + to[1, 2] + to[1, 3] * disparity) / ratio
    if not (abs(u) < 1e8 and abs(v) < 1e8):
        return np.float32(0), 0, 0
    return ratio, int(np.floor(u)), int(np.floor(v))
