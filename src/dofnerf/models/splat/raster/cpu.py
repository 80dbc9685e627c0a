"""The rasteriser in numba: the CPU version of reference.py, for float32. Projection is in project_cpu.py.

**Tiles.** The picture is cut into tiles of WIDE × HIGH pixels. A Gaussian ends on an ellipse, and the range of columns
of an ellipse in a band of rows has a closed form, as has the range of rows. So each tile's list holds exactly the
Gaussians that touch it, near to far, and the rows that each touches. An *entry* is a Gaussian in a tile. Entries are
first found Gaussian by Gaussian, near to far, each in a *slot*; a counting sort then groups them by tile and keeps
their order. Gradients go back to the slots: those of one Gaussian are adjacent, and are summed in a fixed order.

**Blending.** A tile's pixels lie row by row in arrays of AREA numbers, all in one buffer, so the rows that a Gaussian
touches are one contiguous run. The inner loops over a run have no branches and vectorise; they start at 0 and at
constant distances from each other, else the compiler could not prove that the arrays do not overlap. exp is a
polynomial: its argument lies between −5.6 and 0, so exp(p) = exp(p/8)⁸ suffices.

**Gradients** also go front to back. With v_i the change of the loss per unit of Gaussian i's weight at a pixel, and
w_i = α_i T_i, the total Σ w_i v_i is known from the finished picture. So what lies behind Gaussian i, `rest`, is the
total minus what has been passed, and ∂/∂α_i = T_i v_i − rest / (1 − α_i).

Jobs own Gaussians or tiles, and write nothing that another job reads or writes: no atomics, and the same bits for any
number of threads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dofnerf.models.splat.gaussians import OPAQUEST, STOP, Drawn, Projected
from dofnerf.models.splat.raster.project_cpu import project
from dofnerf.optics.kernels import compiled, run_jobs

__all__ = ["attribute", "project", "rasterise"]

WIDE, HIGH = 8, 16
AREA = WIDE * HIGH
_BANDS = 6  # jobs per thread: the cost of tiles varies much
_SLACK = 1e-3  # pixels: rounding must not cost a Gaussian a row, and each pixel is tested anyway
_CHECK = 16  # entries between two checks whether all pixels of a tile are done
_ONE, _ZERO, _HALF = np.float32(1), np.float32(0), np.float32(0.5)
_OPAQUEST, _STOP = np.float32(OPAQUEST), np.float32(STOP)
_EIGHTH = np.float32(0.125)
# exp(x) on −0.7 … 0 by the polynomial of degree 5 with the least relative error, 9e-8, and the value 1 at 0
_E1, _E2, _E3 = np.float32(0.9999947626), np.float32(0.4998997786), np.float32(0.1660284053)
_E4, _E5 = np.float32(0.0398483114), np.float32(0.0058852542)


def rasterise(projected: Projected, width: int, height: int) -> Drawn:
    """As `raster.rasterise`."""
    return Drawn(*_Rasterise.apply(*projected, width, height))


def attribute(projected: Projected, values: Tensor) -> Tensor:
    """As `raster.attribute`."""
    height, width, channels = values.shape
    table, reach, depth = (tensor.detach().contiguous().numpy() for tensor in projected)
    tiles = sort_into_tiles(table, reach, depth, width, height)
    parts = np.empty((tiles.slots, channels), np.float32)
    pixels = values.detach().contiguous().numpy()
    run_jobs(_attribute_tiles, len(tiles.lists) - 1, (*tiles.walk, table, reach, pixels, parts), per_thread=_BANDS)
    return tiles.sum(parts, len(table))


class Tiles(NamedTuple):
    """`entries` (E, 4) as in `_sort_entries`, tile i from `lists[i]` to `lists[i + 1]`. For gradients: `order`, the
    Gaussians near to far, where the slots of each start, and how many are filled."""

    entries: np.ndarray
    lists: np.ndarray
    order: np.ndarray
    starts: np.ndarray
    filled: np.ndarray
    slots: int

    @property
    def walk(self) -> tuple[np.ndarray, np.ndarray]:
        return self.lists, self.entries

    def sum(self, parts: np.ndarray, count: int) -> Tensor:
        """Sum over the slots of each Gaussian, (slots, C) → (N, C)."""
        total = torch.zeros(count, parts.shape[1])
        run_jobs(_sum_slots, len(self.order), (self.order, self.starts, self.filled, parts, total.numpy()))
        return total


def sort_into_tiles(table: np.ndarray, reach: np.ndarray, depth: np.ndarray, width: int, height: int) -> Tiles:
    """The lists of Gaussians of each tile, near to far; of two at one depth the first comes first."""
    counts = np.empty(len(table), np.int64)
    run_jobs(_count_slots, len(table), (table, reach, width, height, counts))
    drawn = np.flatnonzero(counts)
    bits = depth[drawn].view(np.uint32).astype(np.uint64)  # of positive floats: in the order of their values
    keys = bits << np.uint64(32) | drawn.astype(np.uint64)
    order = (np.sort(keys) & np.uint64(0xFFFFFFFF)).astype(np.int64)
    ends = np.cumsum(counts[order])
    slots = int(ends[-1]) if len(ends) else 0
    starts = ends - counts[order]
    filled, found = np.empty(len(order), np.int64), np.empty((slots, 2), np.int32)
    run_jobs(_fill_slots, len(order), (order, table, reach, width, height, starts, filled, found))
    lists = np.zeros(-(-width // WIDE) * -(-height // HIGH) + 1, np.int64)
    _count_entries(starts, filled, found, lists[1:])
    np.cumsum(lists, out=lists)
    entries = np.empty((lists[-1], 4), np.int32)
    _sort_entries(order, starts, filled, found, lists[:-1].copy(), entries)
    return Tiles(entries, lists, order, starts, filled, slots)


class _Rasterise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, table: Tensor, reach: Tensor, depth: Tensor, width: int, height: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows, ends, order = (tensor.detach().contiguous().numpy() for tensor in (table, reach, depth))
        tiles = sort_into_tiles(rows, ends, order, width, height)
        out = torch.empty(height, width, 3), torch.empty(height, width), torch.empty(height, width)
        used = np.empty(len(tiles.lists) - 1, np.int64)
        walk = (*tiles.walk, rows, ends)
        run_jobs(_forward_tiles, len(used), (*walk, *(tensor.numpy() for tensor in out), used), per_thread=_BANDS)
        ctx.walk, ctx.used, ctx.tiles, ctx.count = walk, used, tiles, len(table)
        ctx.save_for_backward(*out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        out = [tensor.numpy() for tensor in ctx.saved_tensors]
        given = [grad.contiguous().numpy() for grad in grads]
        parts = np.empty((ctx.tiles.slots, 10), np.float32)
        run_jobs(_backward_tiles, len(ctx.used), (*ctx.walk, ctx.used, *out, *given, parts), per_thread=_BANDS)
        return ctx.tiles.sum(parts, ctx.count), None, None, None, None


@compiled
def _box(table, reach, i):
    """Half the width and height of the bounding box of Gaussian i, and the determinant of its conic."""
    a, b, c = float(table[i, 2]), float(table[i, 3]), float(table[i, 4])
    det = a * c - b * b
    scale = reach[i] / det
    return math.sqrt(scale * c), math.sqrt(scale * a), det


@compiled
def _tile_range(middle, half, pixels, step):
    """First tile, and the one after the last, with pixel centres within `half` of `middle`."""
    first = math.ceil(max(middle - half - 0.5 - _SLACK, 0.0))
    last = math.floor(min(middle + half - 0.5 + _SLACK, pixels - 1.0))
    return (first // step, last // step + 1) if first <= last else (0, 0)


@compiled
def _count_slots(first, last, table, reach, width, height, counts):
    """Upper bound on the slots of Gaussians [first, last): the tiles of their bounding boxes → counts (N,)."""
    for i in range(first, last):
        counts[i] = 0
        if reach[i] > 0:
            half_width, half_height, _ = _box(table, reach, i)
            left, right = _tile_range(float(table[i, 0]), half_width, width, WIDE)
            top, bottom = _tile_range(float(table[i, 1]), half_height, height, HIGH)
            counts[i] = (right - left) * (bottom - top)


@compiled
def _span(low, high, along, skew, ends, det, furthest):
    """Extent of an ellipse in u, from its centre, where v lies between `low` and `high`: (least u, greatest u).

    along·u² + 2·skew·u·v + …·v² ≤ ends. The greatest u is a concave function of v, so it is at the v of the furthest
    point, clamped to the range.
    """
    v = min(max(furthest, low), high)
    greatest = (-skew * v + math.sqrt(max(along * ends - det * v * v, 0.0))) / along
    v = min(max(-furthest, low), high)
    least = (-skew * v - math.sqrt(max(along * ends - det * v * v, 0.0))) / along
    return least, greatest


@compiled
def _fill_slots(first, last, order, table, reach, width, height, starts, filled, found):  # noqa: PLR0913, PLR0917
    """Find the entries of the Gaussians order[first:last].

    Gaussian order[n] has the slots from starts[n] on and fills filled[n] of them; `found` (slots, 2) int32 is the tile,
    and first row · 256 + row after the last.
    """
    across = (width + WIDE - 1) // WIDE
    for n in range(first, last):
        i = order[n]
        x, y = float(table[i, 0]), float(table[i, 1])
        a, b, c, ends = float(table[i, 2]), float(table[i, 3]), float(table[i, 4]), float(reach[i])
        half_width, half_height, det = _box(table, reach, i)
        begin, end = _tile_range(y, half_height, height, HIGH)
        one_column = False
        rightmost, lowest = (
            -b * half_width / c,
            -b * half_height / a,
        )  # row of the rightmost, column of the lowest point
        slot = starts[n]
        for tile_row in range(begin, end):
            up, down = tile_row * HIGH + 0.5 - y, (tile_row + 1) * HIGH - 0.5 - y
            if end - begin == 1:
                least, greatest = -half_width, half_width
            else:
                least, greatest = _span(max(up, -half_height), min(down, half_height), a, b, ends, det, rightmost)
            left, right = _tile_range(x + (least + greatest) / 2, (greatest - least) / 2, width, WIDE)
            one_column = right - left == 1
            for column in range(left, right):
                if one_column:
                    least, greatest = -half_height, half_height
                else:
                    near, far = column * WIDE + 0.5 - x, (column + 1) * WIDE - 0.5 - x
                    least, greatest = _span(max(near, -half_width), min(far, half_width), c, b, ends, det, lowest)
                top = math.ceil(max(least - up - _SLACK, 0.0))
                bottom = math.floor(min(greatest - up + _SLACK, HIGH - 1.0)) + 1
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
def _sum_slots(first, last, order, starts, filled, parts, total):
    """Add the parts (slots, C) of each of the Gaussians order[first:last] to total (N, C)."""
    for n in range(first, last):
        i = order[n]
        for slot in range(starts[n], starts[n] + filled[n]):
            for c in range(total.shape[1]):
                total[i, c] += parts[slot, c]


@compiled
def _exp(power):
    """exp for arguments −5.6 … 0; finite elsewhere."""
    x = max(power, np.float32(-5.6)) * _EIGHTH
    y = _ONE + x * (_E1 + x * (_E2 + x * (_E3 + x * (_E4 + x * _E5))))
    y = y * y
    y = y * y
    return y * y


@compiled
def _pixel_centres(buffer):
    """Fill the first two arrays of a buffer: column and row of each pixel's centre in its tile."""
    for i in range(AREA):
        buffer[i] = i % WIDE + 0.5
        buffer[AREA + i] = i // WIDE + 0.5


@compiled
def _all_done(buffer, start):
    most = _ZERO
    for i in range(AREA):
        most = max(most, buffer[start + i])
    return most < _STOP


@compiled
def _forward_tiles(first, last, starts, entries, table, reach, light, disparity, alpha, used):  # noqa: PLR0913, PLR0917
    """Blend tiles [first, last) into light (H, W, 3), disparity (H, W), alpha (H, W); `used` (tiles,): entries that
    were needed."""
    height, width = alpha.shape
    across = (width + WIDE - 1) // WIDE
    b = np.empty(7 * AREA, np.float32)  # column, row, transmittance, red, green, blue, disparity
    _pixel_centres(b)
    for tile in range(first, last):
        x0, y0 = (tile % across) * WIDE, (tile // across) * HIGH
        rows, columns = min(HIGH, height - y0), min(WIDE, width - x0)
        for i in range(2 * AREA, 7 * AREA):
            b[i] = _ZERO
        for y in range(rows):
            for x in range(columns):
                b[2 * AREA + y * WIDE + x] = _ONE  # pixels beyond the border stay 0: done
        begin, end = starts[tile], starts[tile + 1]
        count = end - begin
        for n in range(count):
            if n % _CHECK == 0 and n > 0 and _all_done(b, 2 * AREA):
                count = n
                break
            g = np.uintp(entries[begin + n, 0])
            mx, my = table[g, 0] - np.float32(x0), table[g, 1] - np.float32(y0)
            ca, cb, cc = -_HALF * table[g, 2], -table[g, 3], -_HALF * table[g, 4]
            opacity, cut = table[g, 5], -_HALF * reach[g]
            red, green, blue, near = table[g, 6], table[g, 7], table[g, 8], table[g, 9]
            run = b[entries[begin + n, 2] * WIDE :]
            for i in range((entries[begin + n, 3] - entries[begin + n, 2]) * WIDE):
                dx, dy = run[i] - mx, run[AREA + i] - my
                power = (ca * dx + cb * dy) * dx + cc * dy * dy
                a = min(opacity * _exp(power), _OPAQUEST)
                t = run[2 * AREA + i]
                w = a * t if (power >= cut) & (t >= _STOP) else _ZERO
                run[2 * AREA + i] = t - w
                run[3 * AREA + i] += w * red
                run[4 * AREA + i] += w * green
                run[5 * AREA + i] += w * blue
                run[6 * AREA + i] += w * near
        used[tile] = count
        for y in range(rows):
            for x in range(columns):
                i = y * WIDE + x
                alpha[y0 + y, x0 + x] = _ONE - b[2 * AREA + i]
                light[y0 + y, x0 + x, 0] = b[3 * AREA + i]
                light[y0 + y, x0 + x, 1] = b[4 * AREA + i]
                light[y0 + y, x0 + x, 2] = b[5 * AREA + i]
                disparity[y0 + y, x0 + x] = b[6 * AREA + i]


@compiled
def _backward_tiles(  # noqa: PLR0913, PLR0917
    first, last, starts, entries, table, reach, used, light, disparity, alpha, g_light, g_disparity, g_alpha, parts
):
    """Gradients of each entry's row of the table, from tiles [first, last) → `parts` (slots, 10)."""
    height, width = alpha.shape
    across = (width + WIDE - 1) // WIDE
    # Column, row, transmittance, rest, gradients of red, green, blue, disparity, alpha.
    b = np.empty(9 * AREA, np.float32)
    _pixel_centres(b)
    for tile in range(first, last):
        x0, y0 = (tile % across) * WIDE, (tile // across) * HIGH
        rows, columns = min(HIGH, height - y0), min(WIDE, width - x0)
        for i in range(2 * AREA, 9 * AREA):
            b[i] = _ZERO
        for y in range(rows):
            for x in range(columns):
                i = y * WIDE + x
                py, px = y0 + y, x0 + x
                b[2 * AREA + i] = _ONE
                total = g_alpha[py, px] * alpha[py, px] + g_disparity[py, px] * disparity[py, px]
                for c in range(3):
                    total += g_light[py, px, c] * light[py, px, c]
                    b[(4 + c) * AREA + i] = g_light[py, px, c]
                b[3 * AREA + i] = total
                b[7 * AREA + i] = g_disparity[py, px]
                b[8 * AREA + i] = g_alpha[py, px]
        for e in range(starts[tile], starts[tile] + used[tile]):
            g, slot = np.uintp(entries[e, 0]), np.uintp(entries[e, 1])
            mx, my = table[g, 0] - np.float32(x0), table[g, 1] - np.float32(y0)
            ca, cb, cc = -_HALF * table[g, 2], -table[g, 3], -_HALF * table[g, 4]
            opacity, cut = table[g, 5], -_HALF * reach[g]
            red, green, blue, near = table[g, 6], table[g, 7], table[g, 8], table[g, 9]
            s0 = sx = sy = sxx = sxy = syy = s_red = s_green = s_blue = s_near = _ZERO
            run = b[entries[e, 2] * WIDE :]
            for i in range((entries[e, 3] - entries[e, 2]) * WIDE):
                dx, dy = run[i] - mx, run[AREA + i] - my
                power = (ca * dx + cb * dy) * dx + cc * dy * dy
                raw = opacity * _exp(power)
                t = run[2 * AREA + i]
                a = min(raw, _OPAQUEST) if (power >= cut) & (t >= _STOP) else _ZERO
                w = a * t
                run[2 * AREA + i] = t - w
                gr, gg, gb, gd = run[4 * AREA + i], run[5 * AREA + i], run[6 * AREA + i], run[7 * AREA + i]
                v = red * gr + green * gg + blue * gb + near * gd + run[8 * AREA + i]
                rest = run[3 * AREA + i] - w * v
                run[3 * AREA + i] = rest
                k = w * v - rest * a / (_ONE - a) if raw <= _OPAQUEST else _ZERO
                kx, ky = k * dx, k * dy
                s0 += k
                sx += kx
                sy += ky
                sxx += kx * dx
                sxy += kx * dy
                syy += ky * dy
                s_red += w * gr
                s_green += w * gg
                s_blue += w * gb
                s_near += w * gd
            parts[slot, 0] = -_ONE * (ca * sx * np.float32(2) + cb * sy)
            parts[slot, 1] = -_ONE * (cc * sy * np.float32(2) + cb * sx)
            parts[slot, 2] = -_HALF * sxx
            parts[slot, 3] = -sxy
            parts[slot, 4] = -_HALF * syy
            parts[slot, 5] = s0 / opacity
            parts[slot, 6] = s_red
            parts[slot, 7] = s_green
            parts[slot, 8] = s_blue
            parts[slot, 9] = s_near
        for e in range(starts[tile] + used[tile], starts[tile + 1]):
            for c in range(10):
                parts[entries[e, 1], c] = _ZERO


@compiled
def _attribute_tiles(first, last, starts, entries, table, reach, values, parts):
    """Σ over pixels of weight · values (H, W, C), for tiles [first, last) → `parts` (slots, C)."""
    height, width, channels = values.shape
    across = (width + WIDE - 1) // WIDE
    b = np.empty(4 * AREA, np.float32)  # column, row, transmittance, weight
    _pixel_centres(b)
    value = np.zeros((channels, AREA), np.float32)
    for tile in range(first, last):
        x0, y0 = (tile % across) * WIDE, (tile // across) * HIGH
        rows, columns = min(HIGH, height - y0), min(WIDE, width - x0)
        for i in range(2 * AREA, 4 * AREA):
            b[i] = _ZERO
        value[:] = _ZERO
        for y in range(rows):
            for x in range(columns):
                b[2 * AREA + y * WIDE + x] = _ONE
                for c in range(channels):
                    value[c, y * WIDE + x] = values[y0 + y, x0 + x, c]
        for e in range(starts[tile], starts[tile + 1]):
            g, slot = np.uintp(entries[e, 0]), np.uintp(entries[e, 1])
            mx, my = table[g, 0] - np.float32(x0), table[g, 1] - np.float32(y0)
            ca, cb, cc = -_HALF * table[g, 2], -table[g, 3], -_HALF * table[g, 4]
            opacity, cut = table[g, 5], -_HALF * reach[g]
            begin, length = entries[e, 2] * WIDE, (entries[e, 3] - entries[e, 2]) * WIDE
            run = b[begin:]
            for i in range(length):
                dx, dy = run[i] - mx, run[AREA + i] - my
                power = (ca * dx + cb * dy) * dx + cc * dy * dy
                t = run[2 * AREA + i]
                w = min(opacity * _exp(power), _OPAQUEST) * t if (power >= cut) & (t >= _STOP) else _ZERO
                run[2 * AREA + i] = t - w
                run[3 * AREA + i] = w
            for c in range(channels):
                total, of = _ZERO, value[c, begin:]
                for i in range(length):
                    total += run[3 * AREA + i] * of[i]
                parts[slot, c] = total
