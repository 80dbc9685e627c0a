"""Which Gaussian touches which tile, near to far: the lists that the raster kernels walk.

A tile is WIDE × HIGH pixels. A Gaussian ends on an ellipse, and an ellipse cut by a band of rows reaches from one
column to another: both have a closed form, so each list holds exactly the Gaussians that touch the tile, however thin
and slanted they are; and for each of them the rows of the tile from the first it touches to the last.

An *entry* is a Gaussian in a tile. First they are found Gaussian by Gaussian, near to far, each in a *slot*; then a
counting sort brings them tile by tile and keeps their order. Gradients go back to the slots: those of one Gaussian are
neighbours, and are summed in a fixed order, without atomics.
"""

from __future__ import annotations

import math

from dofnerf.optics.kernels import compiled

WIDE, HIGH = 8, 16
_SLACK = 1e-3  # pixels: rounding must not cost a Gaussian a row, and the raster kernels test each pixel anyway


@compiled
def _box(table, reach, i):
    """Half the width and height of the box around where Gaussian i ends, and the determinant of its conic."""
    a, b, c = float(table[i, 2]), float(table[i, 3]), float(table[i, 4])
    det = a * c - b * b
    scale = reach[i] / det
    return math.sqrt(scale * c), math.sqrt(scale * a), det


@compiled
def _tile_range(middle, half, pixels, step):
    """First tile, and the one after the last, that hold pixel centres within `half` of `middle`."""
    first = math.ceil(max(middle - half - 0.5 - _SLACK, 0.0))
    last = math.floor(min(middle + half - 0.5 + _SLACK, pixels - 1.0))
    return (first // step, last // step + 1) if first <= last else (0, 0)


@compiled
def count_slots(first, last, table, reach, width, height, counts):
    """As many slots as Gaussians [first, last) may want: the tiles of their boxes → counts (N,)."""
    for i in range(first, last):
        counts[i] = 0
        if reach[i] > 0:
            half_width, half_height, _ = _box(table, reach, i)
            left, right = _tile_range(float(table[i, 0]), half_width, width, WIDE)
            top, bottom = _tile_range(float(table[i, 1]), half_height, height, HIGH)
            counts[i] = (right - left) * (bottom - top)


@compiled
def _span(low, high, along, skew, ends, det, furthest):
    """How far an ellipse reaches, from its centre, in one direction where the other lies between `low` and `high`.

    along·u² + 2·skew·u·v + …·v² ≤ ends, low ≤ v ≤ high → (least u, greatest u). The greatest u as a function of v is
    concave, so it is found at the v of the furthest point, brought into the range.
    """
    v = min(max(furthest, low), high)
    greatest = (-skew * v + math.sqrt(max(along * ends - det * v * v, 0.0))) / along
    v = min(max(-furthest, low), high)
    least = (-skew * v - math.sqrt(max(along * ends - det * v * v, 0.0))) / along
    return least, greatest


@compiled
def fill_slots(first, last, order, table, reach, width, height, starts, filled, found):  # noqa: PLR0913, PLR0917
    """Find the entries of the Gaussians order[first:last].

    Number n in the order has its slots from starts[n] on, and fills filled[n] of them: found (slots, 2) int32 holds the
    tile, and first row · 256 + row after the last.
    """
    across = (width + WIDE - 1) // WIDE
    for n in range(first, last):
        i = order[n]
        x, y = float(table[i, 0]), float(table[i, 1])
        a, b, c, ends = float(table[i, 2]), float(table[i, 3]), float(table[i, 4]), float(reach[i])
        half_width, half_height, det = _box(table, reach, i)
        begin, end = _tile_range(y, half_height, height, HIGH)
        one_column = False
        rightmost, lowest = -b * half_width / c, -b * half_height / a  # row of the one, column of the other
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
def count_entries(starts, filled, found, lengths):
    """The length of each tile's list → lengths (tiles,), which start at 0."""
    for n in range(filled.shape[0]):
        for slot in range(starts[n], starts[n] + filled[n]):
            lengths[found[slot, 0]] += 1


@compiled
def sort_entries(order, starts, filled, found, next_entry, entries):
    """The counting sort: entries (E, 4) int32, tile by tile: Gaussian, slot, first row in the tile, row after the last.

    `next_entry` (tiles,) is where each list begins; it is moved along.
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
def sum_slots(first, last, order, starts, filled, parts, total):
    """Add up the parts (slots, C) of each of the Gaussians order[first:last] → total (N, C), which starts at 0."""
    for n in range(first, last):
        i = order[n]
        for slot in range(starts[n], starts[n] + filled[n]):
            for c in range(total.shape[1]):
                total[i, c] += parts[slot, c]
