"""Which Gaussian touches which tile, near to far: the lists that the raster kernels walk.

A tile is WIDE × HIGH pixels. A Gaussian ends on an ellipse, and an ellipse cut by a band of rows reaches from one column to
another: both have a closed form, so each list holds exactly the Gaussians that touch the tile, however thin and slanted they
are; and for each of them the rows of the tile from the first it touches to the last.

An *entry* is a Gaussian in a tile. Entries lie tile by tile, near to far. Each also has a *slot*: its place among the entries
ordered by Gaussian, where its part of the gradient goes. All of a Gaussian's slots are neighbours, so they are summed at the end
in a fixed order, without atomics.
"""

from __future__ import annotations

import math

import numpy as np

from dofnerf.kernels import compiled

WIDE, HIGH = 8, 16
_SLACK = 1e-3  # pixels: rounding must not cost a Gaussian a row, and the raster kernels test each pixel anyway


@compiled
def _span(low, high, along, skew, across, ends):
    """How far an ellipse reaches, from its centre, in one direction where the other lies between `low` and `high`.

    along·u² + 2·skew·u·v + across·v² ≤ ends, low ≤ v ≤ high → (least u, greatest u); least > greatest if they do not meet.
    The greatest u as a function of v is concave, so it is found at the v of the rightmost point, brought into the range.
    """
    det = along * across - skew * skew
    tip = math.sqrt(ends * along / det)  # the greatest v
    if low > tip or high < -tip:
        return 1.0, 0.0
    rightmost = -skew * math.sqrt(ends / (across * det))  # v where u is greatest
    v = min(max(rightmost, low), high)
    greatest = (-skew * v + math.sqrt(max(along * ends - det * v * v, 0.0))) / along
    v = min(max(-rightmost, low), high)
    least = (-skew * v - math.sqrt(max(along * ends - det * v * v, 0.0))) / along
    return least - _SLACK, greatest + _SLACK


@compiled
def _tile_rows(row, half, height):
    """First tile row and the one after the last, for pixel centres within `half` of `row`."""
    first, last = max(math.ceil(row - half - 0.5), 0), min(math.floor(row + half - 0.5), height - 1)
    return (first // HIGH, last // HIGH + 1) if first <= last else (0, 0)


@compiled
def _tile_columns(tile_row, table, reach, i, width, height):
    """First tile column and the one after the last that Gaussian i touches in this row of tiles."""
    top, bottom = tile_row * HIGH + 0.5, min((tile_row + 1) * HIGH, height) - 0.5
    x, y = float(table[i, 0]), float(table[i, 1])
    least, greatest = _span(top - y, bottom - y, float(table[i, 2]), float(table[i, 3]), float(table[i, 4]), float(reach[i]))
    if least > greatest:
        return 0, 0
    first, last = math.ceil(max(x + least - 0.5, 0.0)), math.floor(min(x + greatest - 0.5, width - 1.0))
    return (first // WIDE, last // WIDE + 1) if first <= last else (0, 0)


@compiled
def _half_height(table, reach, i):
    a, b, c = float(table[i, 2]), float(table[i, 3]), float(table[i, 4])
    return math.sqrt(reach[i] * a / (a * c - b * b)) + _SLACK


@compiled
def count_tiles(first, last, table, reach, width, height, counts):
    """How many tiles each of the Gaussians [first, last) touches → counts (N,)."""
    for i in range(first, last):
        counts[i] = 0
        if reach[i] > 0:
            begin, end = _tile_rows(float(table[i, 1]), _half_height(table, reach, i), height)
            for tile_row in range(begin, end):
                left, right = _tile_columns(tile_row, table, reach, i, width, height)
                counts[i] += right - left


@compiled
def count_entries(first, last, order, table, reach, width, height, lengths):
    """How many Gaussians touch each tile of the tile rows [first, last) → lengths (tiles,), which start at 0."""
    across = (width + WIDE - 1) // WIDE
    for n in range(order.shape[0]):
        i = order[n]
        begin, end = _tile_rows(float(table[i, 1]), _half_height(table, reach, i), height)
        for tile_row in range(max(begin, first), min(end, last)):
            left, right = _tile_columns(tile_row, table, reach, i, width, height)
            for column in range(left, right):
                lengths[tile_row * across + column] += 1


@compiled
def list_entries(first, last, order, table, reach, width, height, slots, next_entry, entries):  # noqa: PLR0913, PLR0917
    """Fill the lists of tile rows [first, last), near to far.

    `order` holds the Gaussians near to far, `slots` (N,) where each one's slots begin, `next_entry` (tiles,) where each list
    begins; it is moved along. `entries` (E, 4) int32: Gaussian, slot, first row in the tile, row after the last.
    """
    across = (width + WIDE - 1) // WIDE
    for n in range(order.shape[0]):
        i = order[n]
        begin, end = _tile_rows(float(table[i, 1]), _half_height(table, reach, i), height)
        if begin >= last or end <= first:
            continue
        x, y = float(table[i, 0]), float(table[i, 1])
        a, b, c, ends = float(table[i, 2]), float(table[i, 3]), float(table[i, 4]), float(reach[i])
        slot = slots[i]
        for tile_row in range(begin, min(end, last)):
            left, right = _tile_columns(tile_row, table, reach, i, width, height)
            if tile_row < first:
                slot += right - left
                continue
            for column in range(left, right):
                least, greatest = _span(column * WIDE + 0.5 - x, (column + 1) * WIDE - 0.5 - x, c, b, a, ends)
                top = math.ceil(max(y + least - 0.5 - tile_row * HIGH, 0.0))
                bottom = math.floor(min(y + greatest - 0.5 - tile_row * HIGH, HIGH - 1.0)) + 1
                tile = tile_row * across + column
                e = next_entry[tile]
                next_entry[tile] = e + 1
                entries[e, 0] = i
                entries[e, 1] = slot
                entries[e, 2] = top
                entries[e, 3] = max(bottom, top) if least <= greatest else top
                slot += 1
