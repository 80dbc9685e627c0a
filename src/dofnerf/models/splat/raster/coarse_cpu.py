"""The mean of views through sub-apertures, to look at: what is out of focus is drawn with fewer pixels. In numba and
without gradients; `cpu.rasterise_mean` draws the same in full.

**Layers.** The order of depths is an order of blur on either side of the focal plane. So the list of Gaussians falls
into layers, near to far, drawn with 1/8, 1/4, 1/2, all, 1/2, 1/4 and 1/8 of the pixels along a side. Blending is
associative: a coarse layer is enlarged by two, bilinearly, and blended with the next finer one. Enlarging blurs, so its
variance is taken off the Gaussians.

**Groups.** What is nearly in focus looks alike through neighbouring sub-apertures. So these form groups, which share
one view of the layer in focus. With F, T the light and transmittance of what is before that layer, M, U its own, and B
the light from behind it, the mean over a group is

    mean (F + T (M + U B)) = mean F + M mean T + U mean (T B)

and these means are taken at half the size.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dofnerf.models.splat.gaussians import Group, Seen
from dofnerf.models.splat.raster.cpu import AREA, HIGH, WIDE, blend, boxes, near_to_far, packed, sort_into_tiles
from dofnerf.optics.kernels import compiled, run_each, run_jobs

_ENLARGED = 1 / 4  # px²: the variance of enlarging by two again and again, 3/16 (1 + 1/4 + …), in coarse pixels
_SPARED = 0.5  # of a Gaussian's least variance, that stays when that of interpolation is taken off
_ONE, _ZERO, _QUARTER, _MOST = np.float32(1), np.float32(0), np.float32(0.25), np.float32(0.75)
_NO_TILES = np.empty((0, AREA), np.float32)


class _Layer(NamedTuple):
    """Gaussians [first, last), near to far, drawn at a size that is halved `level` times."""

    level: int
    first: int
    last: int


@torch.no_grad()
def rasterise_coarse(
    groups: Sequence[Group],
    lens: tuple[float, float],
    limits: Sequence[float],
    size: tuple[int, int],
    background: Tensor,
) -> Tensor:
    """As `raster.rasterise_coarse`."""
    painter = _Painter([seen for group in groups for seen in (group.shared, *group.members)], lens, limits, size)
    near, middle, far = painter.layers[: len(limits)], painter.layers[len(limits)], painter.layers[len(limits) + 1 :]
    # Channels: transmittance and light. One pixel stands for a picture of one colour.
    clear, backdrop = np.zeros((4, 1, 1), np.float32), np.zeros((4, 1, 1), np.float32)
    clear[0], backdrop[1:, 0, 0] = 1, background.numpy()
    jobs = [(group.shared, middle) for group in groups]
    jobs += [(seen, layer) for group in groups for seen in group.members for layer in near + far]
    painter.sort(jobs)
    image = torch.zeros(size[1], size[0], 3)
    for group in groups:
        sums = np.concatenate([clear, backdrop[1:]])  # T, F and T B
        if any(layer.first < layer.last for layer in near + far):
            sums = np.zeros((7, *painter.sizes[1][::-1]), np.float32)
            for seen in group.members:
                before = painter.chain(_blend_behind, clear, seen, near)
                behind = painter.chain(_blend_before, backdrop, seen, far[::-1])
                run_jobs(_add_view, sums.shape[1], (before, behind, np.float32(1 / len(group.members)), sums))
        tiles = painter.draw(group.shared, middle)
        given = (sums, tiles, np.float32(1 / len(groups)), image.numpy())
        run_jobs(_add_group, -(-size[1] // HIGH), given)
    return image


class _Painter:
    """Draws layers of Gaussians as they are seen through sub-apertures."""

    def __init__(
        self, views: Sequence[Seen], lens: tuple[float, float], limits: Sequence[float], size: tuple[int, int]
    ) -> None:
        self.aperture, self.focus = lens
        self.sizes = [size]
        for _ in limits:
            self.sizes.append((-(-self.sizes[-1][0] // 2), -(-self.sizes[-1][1] // 2)))
        kinds = {id(seen.projected): [tensor.numpy() for tensor in seen.projected] for seen in views}
        depth = views[0].projected.depth.numpy()
        order = near_to_far(depth, np.maximum.reduce([reach for _, reach, _ in kinds.values()]))
        radius = self.aperture * (self.focus - 1 / depth[order])  # rises from near to far
        edges = np.searchsorted(radius, [*(-limit for limit in limits[::-1]), *limits]).tolist()
        levels = [abs(level) for level in range(-len(limits), len(limits) + 1)]
        ranges = pairwise([0, *edges, len(order)])
        self.layers = [_Layer(level, *both) for level, both in zip(levels, ranges, strict=True)]
        self.kinds = {key: (table[order], reach[order]) for key, (table, reach, _) in kinds.items()}
        self.shrunk: dict = {}
        self.sorted: dict = {}

    def sort(self, jobs: Sequence[tuple[Seen, _Layer]]) -> None:
        """Sort the Gaussians of layers into tiles, as they are seen through sub-apertures."""
        jobs = [(seen, layer) for seen, layer in jobs if layer.first < layer.last]
        for seen, layer in jobs:
            key = id(seen.projected), layer
            if key not in self.shrunk:
                table, reach = (array[layer.first : layer.last] for array in self.kinds[key[0]])
                table, order = _shrunk(table, layer.level), np.arange(len(table))
                self.shrunk[key] = order, boxes(order, table, reach), packed(table, reach)

        def sort_one(number: int) -> None:
            (part, projected), layer = jobs[number]
            order, found, rows = self.shrunk[id(projected), layer]
            scale = self.aperture / 2**layer.level
            shift = np.array([scale * part.x, -scale * part.y, self.focus, part.x, -part.y], np.float32)
            tiles = sort_into_tiles(order, found, shift, *self.sizes[layer.level])
            self.sorted[part, layer] = tiles, rows, shift

        run_each(sort_one, len(jobs))

    def draw(self, seen: Seen, layer: _Layer) -> np.ndarray:
        """A layer in tiles (tiles, 5 · AREA); no tiles, if there is nothing in it."""
        if layer.first == layer.last:
            return _NO_TILES
        return blend(*self.sorted[seen.part, layer])

    def chain(self, kernel: Any, start: np.ndarray, seen: Seen, layers: Sequence[_Layer]) -> np.ndarray:
        """(4, h, w): layers of rising size, each blended by the kernel with what the coarser ones gave."""
        found = start
        for layer in layers:
            width, height = self.sizes[layer.level]
            larger = np.empty((4, height, width), np.float32)
            run_jobs(kernel, -(-height // HIGH), (found, self.draw(seen, layer), larger))
            found = larger
        return found


def _shrunk(table: np.ndarray, level: int) -> np.ndarray:
    """A table (N, 10) in pixels 2^level times as large, with the variance of enlarging taken off and as much light."""
    if level == 0:
        return table
    scale, out = 2.0**level, table.copy()
    a, b, c = table[:, 2:5].astype(np.float64).T
    det = np.maximum(a * c - b * b, 1e-30) * scale**2
    xx, xy, yy = c / det, -b / det, a / det  # covariance
    before = xx * yy - xy * xy
    smallest = (xx + yy) / 2 - np.hypot((xx - yy) / 2, xy)
    off = np.minimum(_ENLARGED * (1 - 0.25**level), _SPARED * smallest)
    xx, yy = xx - off, yy - off
    after = np.maximum(xx * yy - xy * xy, 1e-30)
    out[:, :2] /= scale
    out[:, 2], out[:, 3], out[:, 4] = yy / after, -xy / after, xx / after
    out[:, 5] *= np.sqrt(before / after)
    return out


@compiled
def _enlarged_row(coarse, channel, y, row):
    """Row y of a channel of `coarse` (C, h, w), enlarged by two."""
    high, wide = coarse.shape[1], coarse.shape[2]
    if high == 1 and wide == 1:
        row[:] = coarse[channel, 0, 0]
        return
    here = y >> 1
    other = min(max(here + (1 if y & 1 else -1), 0), high - 1)
    one, two = coarse[channel, here], coarse[channel, other]
    this = _MOST * one[0] + _QUARTER * two[0]
    before = this
    for x in range(wide - 1):
        after = _MOST * one[x + 1] + _QUARTER * two[x + 1]
        row[2 * x] = _MOST * this + _QUARTER * before
        row[2 * x + 1] = _MOST * this + _QUARTER * after
        before, this = this, after
    row[2 * wide - 2] = _MOST * this + _QUARTER * before
    row[2 * wide - 1] = this


@compiled
def _tile_rows(tiles, across, y, rows):
    """Row y of a picture in tiles → rows (4, …): transmittance and light. Without tiles there is nothing to see."""
    if tiles.shape[0] == 0:
        rows[0] = _ONE
        rows[1:] = _ZERO
        return
    first, place = (y // HIGH) * across, (y % HIGH) * WIDE
    for c in range(4):
        for tile in range(across):
            for x in range(WIDE):
                rows[c, tile * WIDE + x] = tiles[first + tile, c * AREA + place + x]


@compiled
def _blend_behind(first, last, coarse, tiles, out):
    """Enlarge `coarse` (4, h, w) and blend what the tiles show behind it → rows of tiles [first, last) of `out`."""
    height, width = out.shape[1], out.shape[2]
    across = (width + WIDE - 1) // WIDE
    passed, light = np.empty(across * WIDE + 1, np.float32), np.empty(across * WIDE + 1, np.float32)
    own = np.empty((4, across * WIDE), np.float32)
    for y in range(first * HIGH, min(last * HIGH, height)):
        _tile_rows(tiles, across, y, own)
        _enlarged_row(coarse, 0, y, passed)
        for x in range(width):
            out[0, y, x] = passed[x] * own[0, x]
        for c in range(1, 4):
            _enlarged_row(coarse, c, y, light)
            for x in range(width):
                out[c, y, x] = light[x] + passed[x] * own[c, x]


@compiled
def _blend_before(first, last, coarse, tiles, out):
    """Enlarge the light of `coarse` (4, h, w) and blend what the tiles show before it."""
    height, width = out.shape[1], out.shape[2]
    across = (width + WIDE - 1) // WIDE
    light, own = np.empty(across * WIDE + 1, np.float32), np.empty((4, across * WIDE), np.float32)
    for y in range(first * HIGH, min(last * HIGH, height)):
        _tile_rows(tiles, across, y, own)
        for c in range(1, 4):
            _enlarged_row(coarse, c, y, light)
            for x in range(width):
                out[c, y, x] = own[c, x] + own[0, x] * light[x]


@compiled
def _add_view(first, last, before, behind, share, sums):
    """Add T, F and T B, times `share`, to rows [first, last) of sums (7, h, w)."""
    for y in range(first, last):
        for x in range(sums.shape[2]):
            sums[0, y, x] += share * before[0, y, x]
        for c in range(1, 4):
            for x in range(sums.shape[2]):
                sums[c, y, x] += share * before[c, y, x]
                sums[c + 3, y, x] += share * before[0, y, x] * behind[c, y, x]


@compiled
def _add_group(first, last, sums, tiles, share, image):
    """Add F + M T + U T B, times `share`, to rows of tiles [first, last) of image (H, W, 3)."""
    height, width = image.shape[0], image.shape[1]
    across = (width + WIDE - 1) // WIDE
    rows, own = np.empty((7, across * WIDE + 1), np.float32), np.empty((4, across * WIDE), np.float32)
    for y in range(first * HIGH, min(last * HIGH, height)):
        _tile_rows(tiles, across, y, own)
        for c in range(7):
            _enlarged_row(sums, c, y, rows[c])
        for x in range(width):
            for c in range(3):
                image[y, x, c] += share * (rows[1 + c, x] + own[1 + c, x] * rows[0, x] + own[0, x] * rows[4 + c, x])
