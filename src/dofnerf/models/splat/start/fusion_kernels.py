"""What the disparity maps of the photos say about each other, and the points on which they agree; symbols of
sweep_kernels."""

from __future__ import annotations

import numpy as np

from dofnerf.optics.kernels import compiled


@compiled
def compare_photos(first, last, disparity, sharpness, neighbours, maps, tolerance, votes, rank, refined):  # noqa: PLR0913, PLR0917
    """For photos [first, last): how many neighbours agree, how sharp this one is among them, and the disparity all
    told.

    `votes` (V, H, W) counts neighbours whose own disparity at the pixel's place in them is the same within `tolerance`
    (V,). `rank` is this photo's sharpness over the largest of those that look at the same place. `refined` is the mean
    of the disparities that agree, each by its sharpness: a blurred photo knows less.
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
def choose_pixels(disparity, fit, neighbours, maps, tolerance, covered, chosen):
    """Mark in `chosen` (V, H, W) the pixels that are `fit` and not yet `covered`; each covers itself in the
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
    """The pixel (x, y) at `disparity` in a neighbour: its depth there over that here (≤ 0: behind), column, row."""
    column, row = np.float32(x) + np.float32(0.5), np.float32(y) + np.float32(0.5)
    ratio = to[2, 0] * column + to[2, 1] * row + to[2, 2] + to[2, 3] * disparity
    if ratio <= 1e-6:
        return np.float32(0), 0, 0
    u = (to[0, 0] * column + to[0, 1] * row + to[0, 2] + to[0, 3] * disparity) / ratio
    v = (to[1, 0] * column + to[1, 1] * row + to[1, 2] + to[1, 3] * disparity) / ratio
    if not (abs(u) < 1e8 and abs(v) < 1e8):
        return np.float32(0), 0, 0
    return ratio, int(np.floor(u)), int(np.floor(v))
