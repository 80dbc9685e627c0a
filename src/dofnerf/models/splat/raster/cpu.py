"""The rasteriser in numba: the CPU version of reference.py, for float32. Projection is in project_cpu.py.

**Tiles.** The picture is cut into tiles of WIDE × HIGH pixels; a row of a tile is one vector (lanes.py). A Gaussian
ends on an ellipse; the range of columns of an ellipse in a band of rows has a closed form, as has the range of rows. So
each tile's list holds exactly the Gaussians that touch it, near to far, and the rows that each touches. An *entry* is a
Gaussian in a tile. Entries are first found Gaussian by Gaussian, near to far, each in a *slot*; a counting sort then
groups them by tile and keeps their order. Gradients go back to the slots: those of one Gaussian are adjacent, and are
summed in a fixed order.

**Blending.** Inside the kernels pictures are stored tile by tile, (tiles, channels · AREA), padded to whole tiles.
Along a row of a tile, dx is a constant vector and dy a number, so the exponent takes two multiplications. exp is a
polynomial: its argument lies between −5.6 and 0, so exp(p) = exp(p/8)⁸ suffices.

**Gradients** also go front to back. With v_i the change of the loss per unit of Gaussian i's weight at a pixel, and
w_i = α_i T_i, the total Σ w_i v_i is known from the finished picture. So what lies behind Gaussian i, `rest`, is the
total minus what has been passed, and ∂/∂α_i = T_i v_i − rest / (1 − α_i).

**Sub-apertures.** The views through parts of a lens share their order of depths, and Gaussians differ only in place: by
aperture · (focus disparity − disparity) times the part's centre. The kernels add that to the centres of the table, so
all views are one operation, and its gradient is too.

Jobs own Gaussians, tiles or views, and write nothing that another job reads or writes: no atomics, and the same bits
for any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dofnerf.models.splat.gaussians import OPAQUEST, STOP, Drawn, Projected, SubAperture
from dofnerf.models.splat.raster.lanes import COUNT, greatest, keep, least, load, prefetch, spread, store, total, totals
from dofnerf.models.splat.raster.project_cpu import project
from dofnerf.optics.kernels import compiled, run_each, run_jobs

__all__ = ["attribute", "project", "rasterise", "rasterise_mean"]

WIDE, HIGH = COUNT, 32
AREA = WIDE * HIGH
_WIDE_BITS, _HIGH_BITS = np.int32(WIDE.bit_length() - 1), np.int32(HIGH.bit_length() - 1)
_CHANNELS = 5  # of a picture in tiles: transmittance, red, green, blue, disparity
_BANDS = 6  # jobs per thread: the cost of tiles varies much
_SLACK = np.float32(1e-3)  # pixels: rounding must not cost a Gaussian a row, and each pixel is tested anyway
_AHEAD = 8  # entries between asking for a Gaussian and reading it
_CHECK = 32  # entries between two checks whether all pixels of a tile are done
_DIGIT_BITS = 11  # of a digit of the radix sort: three of them make up a float32
_DIGITS = 1 << _DIGIT_BITS
_STILL = np.zeros(5, np.float32)  # no sub-aperture: see _Shift
_ONE, _ZERO, _HALF, _TWO = np.float32(1), np.float32(0), np.float32(0.5), np.float32(2)
_OPAQUEST, _STOP = np.float32(OPAQUEST), np.float32(STOP)
_EIGHTH, _LEAST_POWER = np.float32(0.125), np.float32(-5.6)
# exp(x) on −0.7 … 0 by the polynomial of degree 5 with the least relative error, 9e-8, and the value 1 at 0
_E1, _E2, _E3 = np.float32(0.9999947626), np.float32(0.4998997786), np.float32(0.1660284053)
_E4, _E5 = np.float32(0.0398483114), np.float32(0.0058852542)


def rasterise(projected: Projected, width: int, height: int) -> Drawn:
    """As `raster.rasterise`."""
    nothing = torch.zeros(())
    return rasterise_mean([projected], [SubAperture()], nothing, nothing, width, height)


def rasterise_mean(
    projected: Sequence[Projected],
    parts: Sequence[SubAperture],
    aperture: Tensor,
    focus_disparity: Tensor,
    width: int,
    height: int,
) -> Drawn:
    """As `raster.rasterise_mean`."""
    kinds = list({id(one): one for one in projected}.values())
    places = [next(k for k, kind in enumerate(kinds) if kind is one) for one in projected]
    tensors = [tensor for kind in kinds for tensor in kind]
    return Drawn(*_Rasterise.apply((places, parts, width, height), aperture, focus_disparity, *tensors))


def attribute(projected: Projected, values: Tensor) -> Tensor:
    """As `raster.attribute`."""
    height, width, channels = values.shape
    table, reach, depth = (tensor.detach().contiguous().numpy() for tensor in projected)
    order = near_to_far(depth, reach)
    tiles = sort_into_tiles(order, boxes(order, table, reach), _STILL, width, height)
    parts = np.empty((tiles.slots, channels), np.float32)
    pixels = np.zeros((len(tiles.lists) - 1, channels * AREA), np.float32)
    run_jobs(_to_tiles, -(-height // HIGH), (values.detach().contiguous().numpy(), pixels, 0))
    walk = (*tiles.walk, packed(table, reach), tiles.across, pixels, parts)
    run_jobs(_attribute_tiles, len(pixels), walk, per_thread=_BANDS)
    share = torch.zeros(len(table), channels)
    run_jobs(_sum_slots, len(tiles.order), (*tiles.filling, parts, share.numpy()))
    return share


class Tiles(NamedTuple):
    """`entries` (E, 4) as in `_sort_entries`, tile i from `lists[i]` to `lists[i + 1]`; `across` tiles lie in a row.
    For gradients: `order`, the Gaussians near to far, where the slots of each start, and how many are filled."""

    entries: np.ndarray
    lists: np.ndarray
    across: int
    order: np.ndarray
    starts: np.ndarray
    filled: np.ndarray
    slots: int

    @property
    def walk(self) -> tuple[np.ndarray, np.ndarray]:
        return self.lists, self.entries

    @property
    def filling(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.order, self.starts, self.filled


def near_to_far(depth: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """The indices of the Gaussians that are drawn, near to far; of two at one depth the first comes first."""
    drawn = np.flatnonzero(reach > 0)
    order = np.empty_like(drawn)
    _sort_by_depth(depth.view(np.uint32), drawn, order)
    return order


def boxes(order: np.ndarray, table: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """What sorting reads of each Gaussian (n, 10), in the given order: see `_find_boxes`."""
    found = np.empty((len(order), 10), np.float32)
    run_jobs(_find_boxes, len(order), (order, table, reach, found))
    return found


def sort_into_tiles(order: np.ndarray, found: np.ndarray, shift: np.ndarray, width: int, height: int) -> Tiles:
    """The lists of Gaussians of each tile, in the given order, from their `boxes`; `shift` as in `_centre`."""
    starts = np.empty(len(order) + 1, np.int64)
    run_jobs(_count_slots, len(order), (found, shift, width, height, starts))
    slots = int(_add_up(starts))
    filled, places = np.empty(len(order), np.int64), np.empty((slots, 2), np.int32)
    run_jobs(_fill_slots, len(order), (found, shift, width, height, starts, filled, places))
    across = -(-width // WIDE)
    lists = np.zeros(across * -(-height // HIGH) + 1, np.int64)
    _count_entries(starts, filled, places, lists[1:])
    np.cumsum(lists, out=lists)
    entries = np.empty((lists[-1], 4), np.int32)
    _sort_entries(order, starts, filled, places, lists[:-1].copy(), entries)
    return Tiles(entries, lists, across, order, starts, filled, slots)


def blend(tiles: Tiles, rows: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """A picture in tiles (tiles, 5 · AREA), of Gaussians as `packed`; `shift` as in `_centre`."""
    count = len(tiles.lists) - 1
    picture, used = _aligned(count, _CHANNELS * AREA), np.empty(count, np.int64)
    run_jobs(_forward_tiles, count, (*tiles.walk, rows, shift, tiles.across, used, picture), per_thread=_BANDS)
    return picture


class _Rasterise(torch.autograd.Function):
    """Inputs: (table of each part, parts, width, height), aperture, focus disparity, and the tensors of the tables."""

    @staticmethod
    def forward(ctx: Any, views: tuple, aperture: Tensor, focus: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        places, parts, width, height = views
        arrays = [tensor.detach().contiguous().numpy() for tensor in tensors]
        tables, reaches, depths = arrays[::3], arrays[1::3], arrays[2::3]
        order = near_to_far(depths[0], np.maximum.reduce(reaches))
        shifts = [
            np.array([float(aperture) * part.x, -float(aperture) * part.y, float(focus), part.x, -part.y], np.float32)
            for part in parts
        ]
        found = [boxes(order, table, reach) for table, reach in zip(tables, reaches, strict=True)]
        lists: list[Any] = [None] * len(parts)

        def sort(number: int) -> None:
            lists[number] = sort_into_tiles(order, found[places[number]], shifts[number], width, height)

        run_each(sort, len(parts))
        count = len(lists[0].lists) - 1
        pictures = _aligned(len(parts), count, _CHANNELS * AREA)
        used = np.empty((len(parts), count), np.int64)
        rows = [packed(*kind) for kind in zip(tables, reaches, strict=True)]
        ctx.views = [
            ((*tiles.walk, rows[kind], shift, tiles.across, seen), picture, tiles, kind)
            for tiles, kind, shift, seen, picture in zip(lists, places, shifts, used, pictures, strict=True)
        ]
        for walk, picture, _, _ in ctx.views:
            run_jobs(_forward_tiles, count, (*walk, picture), per_thread=_BANDS)
        out = torch.empty(height, width, 3), torch.empty(height, width), torch.empty(height, width)
        run_jobs(_from_tiles, -(-height // HIGH), (pictures, *(tensor.numpy() for tensor in out)))
        ctx.tables, ctx.lens, ctx.size = tables, (float(aperture), float(focus)), (height, width)
        ctx.set_materialize_grads(False)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        given = _aligned(*ctx.views[0][1].shape)
        given[:] = 0
        height, width = ctx.size
        for channel, grad in ((0, grads[2]), (1, grads[0]), (4, grads[1])):
            if grad is not None:
                values = (grad / len(ctx.views)).reshape(height, width, -1).contiguous().numpy()
                run_jobs(_to_tiles, -(-height // HIGH), (values, given, channel))
        deep = None if grads[1] is None else 1
        order = ctx.views[0][2].order
        sums = [_aligned(len(order), 16) for _ in ctx.tables]
        for one in sums:
            one[:] = 0
        for walk, picture, tiles, kind in ctx.views:
            parts = _aligned(tiles.slots, 16)
            run_jobs(_backward_tiles, len(given), (*walk, picture, given, deep, parts), per_thread=_BANDS)
            run_jobs(_gather, len(order), (tiles.starts, tiles.filled, parts, walk[3], sums[kind]))
        aperture, focus = ctx.lens
        g_aperture, g_focus, g_tables = 0.0, 0.0, []
        for table, found in zip(ctx.tables, sums, strict=True):
            grad, along = torch.zeros(table.shape), np.empty(len(order), np.float32)
            run_jobs(_table_gradient, len(order), (order, table, found, np.float32(aperture), grad.numpy(), along))
            whole = float(along.sum(dtype=np.float64))
            g_aperture += focus * whole - float(along @ table[order, 9])
            g_focus += aperture * whole
            g_tables += [grad, None, None]
        return None, torch.tensor(g_aperture), torch.tensor(g_focus), *g_tables


def packed(table: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """What blending reads of each Gaussian, (N, 16), in one cache line: column, row, the factors of dx², dx dy and dy²
    in the exponent, opacity, red, green, blue, disparity, and the least exponent."""
    rows = _aligned(len(table), 16)
    run_jobs(_pack, len(table), (table, reach, rows))
    return rows


def _aligned(*shape: int) -> np.ndarray:
    """An empty float32 array on a boundary of 64 bytes: a row of a tile that straddles two cache lines costs twice."""
    room = np.empty(math.prod(shape) + 16, np.float32)
    first = -(room.ctypes.data // 4) % 16
    return room[first : first + math.prod(shape)].reshape(shape)


@compiled
def _sort_by_depth(bits, ids, order):
    """Fill order (n,) with the indices `ids` (n,), which are overwritten, by rising depth: a stable radix sort of its
    `bits` (N,), which for positive floats are in the order of the values."""
    first = np.empty(_DIGITS, np.int64)
    source, target = ids, order
    for turn in range(3):
        shift = np.uint32(_DIGIT_BITS * turn)
        first[:] = 0
        for n in range(ids.shape[0]):
            first[np.uintp((bits[source[n]] >> shift) & np.uint32(_DIGITS - 1))] += 1
        whole = 0
        for digit in range(_DIGITS):
            count = first[digit]
            first[digit] = whole
            whole += count
        for n in range(ids.shape[0]):
            own = np.uintp((bits[source[n]] >> shift) & np.uint32(_DIGITS - 1))
            target[first[own]] = source[n]
            first[own] += 1
        source, target = target, source


@compiled
def _pack(first, last, table, reach, rows):
    for i in range(first, last):
        for c in range(10):
            rows[i, c] = table[i, c]
        rows[i, 2], rows[i, 3], rows[i, 4] = -_HALF * table[i, 2], -table[i, 3], -_HALF * table[i, 4]
        rows[i, 10] = -_HALF * reach[i]


@compiled
def _centre(table, shift, i):
    """Where Gaussian i is seen: (column, row). `shift` (5,): the sub-aperture's centre times the aperture, right and
    down; the focus disparity; and its centre alone."""
    away = shift[2] - table[i, 9]
    return table[i, 0] + shift[0] * away, table[i, 1] + shift[1] * away


@compiled
def _find_boxes(first, last, order, table, reach, found):
    """Fill found[first:last] (n, 10) with the boxes of the Gaussians order[first:last]: centre and disparity; half the
    width and height of the bounding box, negative if it is not drawn; and of the ellipse a x² + 2 b x y + c y² the
    slopes b/a and b/c of its middles and the ratios √det/a and √det/c of its chords (see `_span`)."""
    for n in range(first, last):
        i = order[n]
        a, b, c = float(table[i, 2]), float(table[i, 3]), float(table[i, 4])
        det = a * c - b * b
        found[n, 0], found[n, 1], found[n, 2] = table[i, 0], table[i, 1], table[i, 9]
        found[n, 3] = found[n, 4] = -_ONE
        if reach[i] > 0:
            root, over_a, over_c = math.sqrt(det), 1 / a, 1 / c
            scale = math.sqrt(float(reach[i])) / root
            found[n, 3], found[n, 4] = scale * math.sqrt(c), scale * math.sqrt(a)
            found[n, 5], found[n, 6] = b * over_a, b * over_c
            found[n, 7], found[n, 8] = root * over_a, root * over_c


@compiled
def _seen_at(boxes, shift, n):
    """Where the n-th Gaussian is seen, as `_centre`."""
    away = shift[2] - boxes[n, 2]
    return boxes[n, 0] + shift[0] * away, boxes[n, 1] + shift[1] * away


@compiled
def _tile_range(middle, half, pixels, step):
    """First tile of 2^`step` pixels, and the one after the last, with pixel centres within `half` of `middle`."""
    low, high = middle - half - _HALF - _SLACK, middle + half - _HALF + _SLACK
    first, last = _ceiling(max(low, _ZERO)), np.int32(min(high, pixels - _ONE))
    if not (high >= _ZERO and first <= last):
        return np.int32(0), np.int32(0)
    return first >> step, (last >> step) + np.int32(1)


@compiled
def _ceiling(value):
    """Of a number that is not negative."""
    whole = np.int32(value)
    return whole + np.int32(np.float32(whole) < value)


@compiled
def _count_slots(first, last, boxes, shift, width, height, counts):
    """Upper bound on the slots of the Gaussians [first, last): the tiles of their bounding boxes → counts (n,)."""
    wide, high = np.float32(width), np.float32(height)
    for n in range(first, last):
        counts[n] = 0
        if boxes[n, 3] > _ZERO:
            x, y = _seen_at(boxes, shift, n)
            left, right = _tile_range(x, boxes[n, 3], wide, _WIDE_BITS)
            top, bottom = _tile_range(y, boxes[n, 4], high, _HIGH_BITS)
            counts[n] = (right - left) * (bottom - top)


@compiled
def _add_up(counts):
    """Replace counts by their sums up to each, exclusive; returns the sum of all."""
    whole = 0
    for n in range(counts.shape[0] - 1):
        count = counts[n]
        counts[n] = whole
        whole += count
    counts[-1] = whole
    return whole


@compiled
def _span(low, high, slope, ratio, half, furthest):
    """Extent of an ellipse in u, from its centre, where v lies between `low` and `high`: (least u, greatest u).

    A chord at v has its middle at −slope·v and half its length is ratio·√(half² − v²), with `half` the greatest v. The
    greatest u is a concave function of v, so it is at the v of the `furthest` point, clamped to the range.
    """
    v = min(max(furthest, low), high)
    greatest = ratio * np.sqrt(max(half * half - v * v, _ZERO)) - slope * v
    v = min(max(-furthest, low), high)
    least = -ratio * np.sqrt(max(half * half - v * v, _ZERO)) - slope * v
    return least, greatest


@compiled
def _fill_slots(first, last, boxes, shift, width, height, starts, filled, found):  # noqa: PLR0913, PLR0917
    """Find the entries of the Gaussians [first, last).

    The n-th has the slots from starts[n] on and fills filled[n] of them; `found` (slots, 2) int32 is the tile, and
    first row · 256 + row after the last.
    """
    across = (width + WIDE - 1) // WIDE
    wide, high = np.float32(width), np.float32(height)
    for n in range(first, last):
        filled[n] = 0
        if starts[n + 1] == starts[n]:
            continue
        x, y = _seen_at(boxes, shift, n)
        half_width, half_height = boxes[n, 3], boxes[n, 4]
        begin, end = _tile_range(y, half_height, high, _HIGH_BITS)
        # row of the rightmost, column of the lowest point
        rightmost, lowest = -boxes[n, 6] * half_width, -boxes[n, 5] * half_height
        slot = starts[n]
        for tile_row in range(begin, end):
            up = np.float32(tile_row * HIGH) + _HALF - y
            least, greatest = -half_width, half_width
            if end - begin > 1:
                down = up + np.float32(HIGH - 1)
                upper, lower = max(up, -half_height), min(down, half_height)
                least, greatest = _span(upper, lower, boxes[n, 5], boxes[n, 7], half_height, rightmost)
            left, right = _tile_range(x + (least + greatest) * _HALF, (greatest - least) * _HALF, wide, _WIDE_BITS)
            one_column = right - left == 1
            for column in range(left, right):
                least, greatest = -half_height, half_height
                if not one_column:
                    near = np.float32(column * WIDE) + _HALF - x
                    nearest, farthest = max(near, -half_width), min(near + np.float32(WIDE - 1), half_width)
                    least, greatest = _span(nearest, farthest, boxes[n, 6], boxes[n, 8], half_width, lowest)
                top = _ceiling(max(least - up - _SLACK, _ZERO))
                bottom = np.int32(min(greatest - up + _SLACK, np.float32(HIGH - 1)) + _ONE)
                if top < bottom:
                    found[slot, 0] = tile_row * across + column
                    found[slot, 1] = top * 256 + bottom
                    slot += 1
        filled[n] = slot - starts[n]


@compiled
def _count_entries(starts, filled, found, lengths):
    """Add the length of each tile's list to lengths (tiles,)."""
    for n in range(filled.shape[0]):
        for slot in range(starts[n], starts[n] + filled[n]):
            lengths[found[slot, 0]] += 1


@compiled
def _sort_entries(order, starts, filled, found, next_entry, entries):
    """Counting sort: entries (E, 4) int32, tile by tile: Gaussian, slot, first row in the tile, row after the last.

    `next_entry` (tiles,) is where each tile's list starts; it is advanced.
    """
    for n in range(order.shape[0]):
        for slot in range(starts[n], starts[n] + filled[n]):
            tile = found[slot, 0]
            e = next_entry[tile]
            next_entry[tile] = e + 1
            entries[e, 0] = order[n]
            entries[e, 1] = slot
            entries[e, 2] = found[slot, 1] >> 8
            entries[e, 3] = found[slot, 1] & 255


@compiled
def _sum_slots(first, last, order, starts, filled, parts, sums):
    """Add the parts (slots, C) of each of the Gaussians order[first:last] to its row of sums (N, C)."""
    for n in range(first, last):
        i = order[n]
        for slot in range(starts[n], starts[n] + filled[n]):
            for c in range(parts.shape[1]):
                sums[i, c] += parts[slot, c]


@compiled
def _gather(first, last, starts, filled, parts, shift, sums):
    """Add the parts (slots, 16) of `_backward_tiles` of the Gaussians [first, last) to sums (n, 16), those of one view.
    From 10 on, Σ k dx and Σ k dy times the column of the sub-aperture's centre, and times its row."""
    s = np.empty(8, np.float32)
    for n in range(first, last):
        if filled[n] == 0:
            continue
        own = sums[n]
        eight, k_yy, near = spread(_ZERO), _ZERO, _ZERO
        for slot in range(starts[n], starts[n] + filled[n]):
            eight = eight + load(parts[slot], 0)
            k_yy += parts[slot, 8]
            near += parts[slot, 9]
        store(own, 0, load(own, 0) + eight)
        store(s, 0, eight)
        k_x, k_y = s[1], s[2]
        own[8] += k_yy
        own[9] += near
        own[10] += shift[3] * k_x
        own[11] += shift[3] * k_y
        own[12] += shift[4] * k_x
        own[13] += shift[4] * k_y


@compiled
def _table_gradient(first, last, order, table, sums, aperture, grads, along):
    """From the sums of all views the gradients of the rows order[first:last] of the table, (N, 10), and that of the
    distance by which each of these Gaussians moves for the outermost sub-aperture, `along` (n,)."""
    for n in range(first, last):
        i, s = order[n], sums[n]
        a, b, c = table[i, 2], table[i, 3], table[i, 4]
        along[n] = a * s[10] + b * s[11] + b * s[12] + c * s[13]
        grads[i, 0], grads[i, 1] = a * s[1] + b * s[2], c * s[2] + b * s[1]
        grads[i, 2], grads[i, 3], grads[i, 4] = -_HALF * s[3], -s[7], -_HALF * s[8]
        grads[i, 5] = s[0] / table[i, 5] if s[0] != _ZERO else _ZERO
        grads[i, 6], grads[i, 7], grads[i, 8] = s[4], s[5], s[6]
        grads[i, 9] = s[9] - aperture * along[n]


@compiled
def _to_tiles(first, last, values, pixels, channel):
    """Copy rows of tiles [first, last) of values (H, W, C) to pixels (tiles, … · AREA), from `channel` on."""
    height, width, channels = values.shape
    across = (width + WIDE - 1) // WIDE
    for y in range(first * HIGH, min(last * HIGH, height)):
        for x in range(width):
            tile, place = y // HIGH * across + x // WIDE, y % HIGH * WIDE + x % WIDE
            for c in range(channels):
                pixels[tile, (channel + c) * AREA + place] = values[y, x, c]


@compiled
def _from_tiles(first, last, pictures, light, disparity, alpha):
    """The mean of pictures (views, tiles, 5 · AREA), rows of tiles [first, last) → light (H, W, 3), disparity and alpha
    (H, W)."""
    height, width = alpha.shape
    across = (width + WIDE - 1) // WIDE
    share = _ONE / np.float32(pictures.shape[0])
    mean = np.empty(_CHANNELS * AREA, np.float32)
    for tile in range(first * across, last * across):
        for i in range(0, _CHANNELS * AREA, WIDE):
            one = load(pictures[0, tile], i)
            for view in range(1, pictures.shape[0]):
                one = one + load(pictures[view, tile], i)
            store(mean, i, one * share)
        x0, y0 = (tile % across) * WIDE, (tile // across) * HIGH
        for y in range(min(HIGH, height - y0)):
            if x0 + WIDE <= width:
                store(alpha[y0 + y], x0, spread(_ONE) - load(mean, y * WIDE))
                store(disparity[y0 + y], x0, load(mean, 4 * AREA + y * WIDE))
                lit, i = light[y0 + y], y * WIDE
                for x in range(WIDE):
                    lit[x0 + x, 0] = mean[AREA + i + x]
                    lit[x0 + x, 1] = mean[2 * AREA + i + x]
                    lit[x0 + x, 2] = mean[3 * AREA + i + x]
                continue
            for x in range(width - x0):
                i = y * WIDE + x
                alpha[y0 + y, x0 + x] = _ONE - mean[i]
                for c in range(3):
                    light[y0 + y, x0 + x, c] = mean[(1 + c) * AREA + i]
                disparity[y0 + y, x0 + x] = mean[4 * AREA + i]


@compiled
def _exp(power):
    """exp of Lanes for arguments −5.6 … 0; finite elsewhere."""
    x = greatest(power, _LEAST_POWER) * _EIGHTH
    y = x * (x * (x * (x * (x * _E5 + _E4) + _E3) + _E2) + _E1) + _ONE
    y = y * y
    y = y * y
    return y * y


@compiled
def _columns():
    """The columns of the pixels' centres in a row of a tile, as Lanes."""
    centres = np.empty(WIDE, np.float32)
    for i in range(WIDE):
        centres[i] = np.float32(i) + _HALF
    return load(centres, 0)


@compiled
def _all_done(transmittance):
    most = load(transmittance, 0)
    for i in range(WIDE, AREA, WIDE):
        most = greatest(most, load(transmittance, i))
    return total(keep(most >= _STOP, spread(_ONE))) == _ZERO


@compiled
def _forward_tiles(first, last, starts, entries, rows, shift, across, used, picture):  # noqa: PLR0913, PLR0917
    """Blend tiles [first, last) into picture (tiles, 5 · AREA); `used` (tiles,): entries that were needed."""
    columns = _columns()
    for tile in range(first, last):
        x0, y0 = np.float32((tile % across) * WIDE), np.float32((tile // across) * HIGH)
        b = picture[tile]
        for i in range(AREA):
            b[i] = _ONE
        for i in range(AREA, _CHANNELS * AREA):
            b[i] = _ZERO
        begin, end = starts[tile], starts[tile + 1]
        count = end - begin
        for n in range(count):
            if n % _CHECK == _CHECK - 1 and _all_done(b):
                count = n
                break
            e = begin + n
            prefetch(rows, entries[min(e + _AHEAD, end - 1), 0])
            g = np.uintp(entries[e, 0])
            x, y = _centre(rows, shift, g)
            ca, cb, cc = rows[g, 2], rows[g, 3], rows[g, 4]
            opacity, cut = rows[g, 5], rows[g, 10]
            red, green, blue, near = rows[g, 6], rows[g, 7], rows[g, 8], rows[g, 9]
            dx = columns - (x - x0)
            along, skew, middle = dx * dx * ca, dx * cb, y - y0 - _HALF
            for i in range(entries[e, 2] * WIDE, entries[e, 3] * WIDE, WIDE):
                dy = np.float32(i // WIDE) - middle
                power = (skew + cc * dy) * dy + along
                t = load(b, i)
                a = least(_exp(power) * opacity, _OPAQUEST)
                w = keep((power >= cut) & (t >= _STOP), a * t)
                store(b, i, t - w)
                store(b, i + AREA, load(b, i + AREA) + w * red)
                store(b, i + 2 * AREA, load(b, i + 2 * AREA) + w * green)
                store(b, i + 3 * AREA, load(b, i + 3 * AREA) + w * blue)
                store(b, i + 4 * AREA, load(b, i + 4 * AREA) + w * near)
        used[tile] = count


@compiled
def _backward_tiles(  # noqa: PLR0913, PLR0917
    first, last, starts, entries, rows, shift, across, used, picture, given, deep, parts
):
    """Sums over the pixels of each entry, from tiles [first, last) → `parts` (slots, 16): with k the gradient of the
    exponent, Σ k (1, dx, dy, dx²), Σ weight · the gradients of red, green and blue, Σ k (dx dy, dy²), and Σ weight ·
    the gradient of disparity.

    `given` (tiles, 5 · AREA) are the gradients of alpha, red, green, blue and disparity; the last is 0 and left out,
    as another version of the kernel, if `deep` is None.
    """
    columns = _columns()
    state = np.empty(2 * AREA, np.float32)  # transmittance, rest
    for tile in range(first, last):
        x0, y0 = np.float32((tile % across) * WIDE), np.float32((tile // across) * HIGH)
        b, g_of = picture[tile], given[tile]
        for i in range(0, AREA, WIDE):
            whole = (spread(_ONE) - load(b, i)) * load(g_of, i)
            for c in range(1, _CHANNELS if deep is not None else _CHANNELS - 1):
                whole = whole + load(b, c * AREA + i) * load(g_of, c * AREA + i)
            store(state, i, spread(_ONE))
            store(state, i + AREA, whole)
        end = starts[tile] + used[tile]
        for e in range(starts[tile], end):
            prefetch(rows, entries[min(e + _AHEAD, end - 1), 0])
            prefetch(parts, entries[min(e + _AHEAD, end - 1), 1])
            g, slot = np.uintp(entries[e, 0]), np.uintp(entries[e, 1])
            x, y = _centre(rows, shift, g)
            ca, cb, cc = rows[g, 2], rows[g, 3], rows[g, 4]
            opacity, cut = rows[g, 5], rows[g, 10]
            red, green, blue, near = rows[g, 6], rows[g, 7], rows[g, 8], rows[g, 9]
            dx = columns - (x - x0)
            along, skew, middle = dx * dx * ca, dx * cb, y - y0 - _HALF
            k0 = k1 = k2 = s_red = s_green = s_blue = s_near = spread(_ZERO)
            for i in range(entries[e, 2] * WIDE, entries[e, 3] * WIDE, WIDE):
                dy = np.float32(i // WIDE) - middle
                power = (skew + cc * dy) * dy + along
                t, rest = load(state, i), load(state, i + AREA)
                raw = _exp(power) * opacity
                a = keep((power >= cut) & (t >= _STOP), least(raw, _OPAQUEST))
                w = a * t
                store(state, i, t - w)
                gr, gg, gb = load(g_of, i + AREA), load(g_of, i + 2 * AREA), load(g_of, i + 3 * AREA)
                seen = gr * red + gg * green + gb * blue + load(g_of, i)
                if deep is not None:
                    gd = load(g_of, i + 4 * AREA)
                    seen = seen + gd * near
                    s_near = s_near + w * gd
                v = w * seen
                rest = rest - v
                store(state, i + AREA, rest)
                # a / (1 − a) times what lies behind; a Gaussian at its largest alpha has no gradient
                k = keep(raw <= _OPAQUEST, v - rest * a / (spread(_ONE) - a))
                ky = k * dy
                k0, k1, k2 = k0 + k, k1 + ky, k2 + ky * dy
                s_red, s_green, s_blue = s_red + w * gr, s_green + w * gg, s_blue + w * gb
            kx = k0 * dx
            store(parts[slot], 0, totals(k0, s_red, kx, s_green, k1, s_blue, kx * dx, k1 * dx))
            parts[slot, 8] = total(k2)
            parts[slot, 9] = total(s_near) if deep is not None else _ZERO
        for e in range(starts[tile] + used[tile], starts[tile + 1]):
            for c in range(10):
                parts[entries[e, 1], c] = _ZERO


@compiled
def _attribute_tiles(first, last, starts, entries, rows, across, pixels, parts):
    """Σ over pixels (tiles, C · AREA) of weight · value, for tiles [first, last) → `parts` (slots, C)."""
    columns = _columns()
    state = np.empty(2 * AREA, np.float32)  # transmittance, weight
    for tile in range(first, last):
        x0, y0 = np.float32((tile % across) * WIDE), np.float32((tile // across) * HIGH)
        state[:AREA] = _ONE
        values = pixels[tile]
        for e in range(starts[tile], starts[tile + 1]):
            g, slot = np.uintp(entries[e, 0]), np.uintp(entries[e, 1])
            ca, cb, cc = rows[g, 2], rows[g, 3], rows[g, 4]
            opacity, cut = rows[g, 5], rows[g, 10]
            dx = columns - (rows[g, 0] - x0)
            along, skew, middle = dx * dx * ca, dx * cb, rows[g, 1] - y0 - _HALF
            begin, end = entries[e, 2] * WIDE, entries[e, 3] * WIDE
            for i in range(begin, end, WIDE):
                dy = np.float32(i // WIDE) - middle
                power = (skew + cc * dy) * dy + along
                t = load(state, i)
                w = keep((power >= cut) & (t >= _STOP), least(_exp(power) * opacity, _OPAQUEST) * t)
                store(state, i, t - w)
                store(state, i + AREA, w)
            for c in range(parts.shape[1]):
                one = spread(_ZERO)
                for i in range(begin, end, WIDE):
                    one = one + load(state, i + AREA) * load(values, c * AREA + i)
                parts[slot, c] = total(one)
