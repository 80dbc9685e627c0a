"""One cloud of points from the disparity maps of all photos.

A pixel counts by how many neighbours come to the same disparity (votes) and by how sharp its photo is there beside the
others that look at the same place (rank). The best pixels are taken first, and each covers the pixels of other photos
that show the same place; what less sure pixels add are only places that nobody has yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dofnerf.models.splat.start.fusion_kernels import choose_pixels, compare_photos
from dofnerf.models.splat.start.sharpness import local_sharpness
from dofnerf.models.splat.start.views import Views
from dofnerf.optics.kernels import run_jobs

# (votes, rank) at the least, surest first.
TIERS = ((4, 0.3), (3, 0.3), (4, 0.0), (2, 0.3), (1, 0.3), (2, 0.0))
_AGREE = 0.5  # of the distance between two planes
_HIDDEN = 3.0  # distances between planes by which something nearer hides a point


@dataclass(frozen=True)
class Cloud:
    """Points (N, 3) float64, colours (N, 3) float32; `tier` (N,) is the place in TIERS, 0 the surest."""

    points: np.ndarray
    colours: np.ndarray
    tier: np.ndarray


def fuse(views: Views, disparity: np.ndarray, count: int) -> Cloud:
    """About `count` points at the most, spread evenly over what the photos see, surer ones first to be kept."""
    sharpness = local_sharpness(views.grey)
    gap = ((views.planes[:, -1] - views.planes[:, 0]) / (views.planes.shape[1] - 1)).astype(np.float32)
    votes, rank = np.zeros(disparity.shape, dtype=np.int32), np.zeros_like(disparity)
    refined = np.zeros_like(disparity)
    where = (views.neighbours, views.maps, _AGREE * gap)
    run_jobs(compare_photos, len(disparity), (disparity, sharpness, *where, votes, rank, refined))
    covered = np.zeros(disparity.shape, dtype=bool)
    tier = np.full(disparity.shape, -1, dtype=np.int8)
    usable = disparity > 0
    for number, (least_votes, least_rank) in enumerate(TIERS):
        chosen = np.zeros(disparity.shape, dtype=bool)
        fit = usable & (votes >= least_votes) & (rank >= least_rank)
        choose_pixels(disparity, fit, *where, covered, chosen)
        tier[chosen] = number
    chosen = _thin(tier >= 0, count)
    points = np.empty((int(chosen.sum()), 3))
    begin = 0
    for v, camera in enumerate(views.cameras):
        rows, columns = np.nonzero(chosen[v])
        pixels = np.stack([columns + 0.5, rows + 0.5], axis=-1)
        points[begin : begin + len(rows)] = camera.unproject(pixels, 1 / refined[v, rows, columns].astype(np.float64))
        begin += len(rows)
    return Cloud(points, sharpest_colours(views, points, disparity, sharpness, gap), tier[chosen])


def sharpest_colours(
    views: Views, points: np.ndarray, disparity: np.ndarray, sharpness: np.ndarray, gap: np.ndarray
) -> np.ndarray:
    """Colours (N, 3) float32 of `points`, from the photo that shows each most sharply and is not hidden by something
    nearer."""
    best = np.zeros(len(points), dtype=np.float32)
    colours = np.full((len(points), 3), 0.5, dtype=np.float32)
    height, width = disparity.shape[1:]
    for v, camera in enumerate(views.cameras):
        pixels, depth = camera.project(points)
        inside = (depth > 0) & (pixels >= 0).all(axis=1) & (pixels < (width, height)).all(axis=1)
        ids = np.flatnonzero(inside)
        columns, rows = pixels[ids].astype(int).T
        sharp = sharpness[v, rows, columns]
        open_ = disparity[v, rows, columns] - 1 / depth[ids] < _HIDDEN * gap[v]
        sharp = np.where(open_, sharp, sharp * np.float32(1e-6))  # better a hidden photo's colour than none
        win = sharp > best[ids]
        best[ids[win]] = sharp[win]
        colours[ids[win]] = views.photos[v, rows[win], columns[win]]
    return colours


def _thin(chosen: np.ndarray, count: int) -> np.ndarray:
    """Every so-manieth of the pixels `chosen` (V, H, W), counted along a curve that stays close to where it was."""
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
    """Morton's order: the bits of both, one after the other."""
    code = np.zeros(len(rows), dtype=np.int64)
    for bit in range(16):
        code |= ((rows.astype(np.int64) >> bit) & 1) << (2 * bit + 1) | ((columns.astype(np.int64) >> bit) & 1) << (
            2 * bit
        )
    return code
