"""The numba kernels behind cpu.py.

A source's *footprint* is its soft disc or polygon, kept as steps: at (row, column) from the source, by how much the weight
changes from the column before. A row of flat weight is two steps however long it is, so a footprint has O(r) of them. Adding a
source to the light means adding its steps; a running sum along each row then gives the weights. The adjoint of a running sum is
a suffix sum, so the backward pass reads the same steps against suffix sums of the gradient. Steps that fall outside go, without
a branch, to a spare row or column.

`normals` (n, 2) and `apothem` describe the polygon (n = 0: a disc), `unit` the norm. `radius` is (H, W) float32, `values` and
gradients (H, W, 4). Kernels work on the band of rows [first, last). Indices are cast to unsigned so that numba drops its check
for negative ones; the hot loops vectorise.
"""

from __future__ import annotations

import math

import numpy as np

from dofnerf.kernels import compiled
from dofnerf.optics.aperture import RIM, STEEPNESS, STRETCH

CHUNK = 8  # points are written by the register, so arrays have this much room to spare


@compiled
def _span(row, radius, normals, apothem):
    """The columns (low, high) that a convex aperture of this (circum)radius covers in a row, as floats; low > high: none."""
    square = radius * radius - row * row
    if radius <= 0.0 or square < 0.0:
        return 1.0, -1.0
    high = math.sqrt(square)
    low = -high
    for n in range(normals.shape[0]):
        room = apothem * radius - row * normals[n, 1]
        slant = normals[n, 0]
        if slant > 1e-9:
            high = min(high, room / slant)
        elif slant < -1e-9:
            low = max(low, room / slant)
        elif room < 0.0:
            return 1.0, -1.0
    return low, high


@compiled
def _put(count, row, low, high, x, y):
    """Append the points low … high of a row; returns the new count."""
    for base in range(low, high + 1, CHUNK):
        for j in range(CHUNK):
            x[np.uintp(count + base - low + j)] = base + j
            y[np.uintp(count + base - low + j)] = row
    return count + max(high - low + 1, 0)


@compiled
def _rim(radius, rows, normals, apothem, x, y):
    """Points (column x, row y) near the rim: all not surely flat, and the last flat one each side. Returns their count.

    Spans are safe by a little: a point too many costs time, not truth. Of a disc, only the quarter x, y ≥ 0.
    """
    margin = RIM / apothem  # k·r ± 1 lies between the polygons of circumradius r ± 1/apothem
    span = min(int(radius + margin), rows)
    count = 0
    if normals.shape[0] == 0:
        outer, inner = (radius + margin) ** 2, max(radius - margin, 0.0) ** 2
        for row in range(span + 1):
            low = int(math.sqrt(max(inner - row * row, 0.0)) - 1e-3)
            high = int(math.sqrt(max(outer - row * row, 0.0)) + 1e-3)
            count = _put(count, row, low, high, x, y)
        return count
    for row in range(-span, span + 1):
        low, high = _span(float(row), radius + margin, normals, apothem)
        outer, outer_end = math.ceil(low - 1e-3), math.floor(high + 1e-3)
        low, high = _span(float(row), radius - margin, normals, apothem)
        flat, flat_end = math.ceil(low + 1e-3), math.floor(high - 1e-3)
        if flat_end <= flat:
            flat, flat_end = outer_end, outer_end + 1
        count = _put(count, row, outer, flat, x, y)
        count = _put(count, row, flat_end, outer_end, x, y)
    return count


@compiled
def _soften(count, radius, normals, apothem, x, y, weight, bend):
    """Of points (x, y): weight = edge(k·r − l) and bend = its derivative by r."""
    half = np.float32(0.5 * STRETCH)
    rim, steep = np.float32(RIM), np.float32(STEEPNESS)
    radius, apothem = np.float32(radius), np.float32(apothem)
    if normals.shape[0] > 0:  # the projection on the nearest blade's normal
        for i in range(count):
            bend[i] = np.float32(1e-20)
        for n in range(normals.shape[0]):
            nx, ny = np.float32(normals[n, 0]), np.float32(normals[n, 1])
            for i in range(count):
                bend[i] = max(bend[i], x[i] * nx + y[i] * ny)
        for i in range(count):
            length = np.sqrt(x[i] * x[i] + y[i] * y[i])
            bend[i] = apothem * length / bend[i] if length > 0 else apothem
    else:
        for i in range(count):
            bend[i] = np.float32(1.0)
    for i in range(count):
        reach = bend[i]
        raw = reach * radius - np.sqrt(x[i] * x[i] + y[i] * y[i])
        inside = min(max(raw, -rim), rim)
        u = steep * inside
        s = u * u  # tanh u as a rational function, good to 6e-9 for |u| ≤ 4
        p = np.float32(0.0025961085922) + s * np.float32(5.76257424e-06)
        p = np.float32(0.99999996630) + s * (np.float32(0.12633430480) + s * p)
        q = np.float32(0.022485546104) + s * np.float32(0.000179981467)
        q = np.float32(1.0) + s * (np.float32(0.45966745567) + s * q)
        tanh = u * p / q
        soft = np.float32(0.5) + half * tanh
        weight[i] = np.float32(0.0) if raw <= -rim else (np.float32(1.0) if raw >= rim else soft)
        bend[i] = reach * half * steep * (np.float32(1.0) - tanh * tanh) if -rim < raw < rim else np.float32(0.0)


@compiled
def footprint(radius, rows, normals, apothem, room):
    """The steps of a source, in `room` = (row, column, step, bend, work); returns their count. bend is d step / d r.

    Rows more than `rows` away are left out. Of a disc only a quarter is kept: a step at (row, −column) stands also at −row, and
    turned around at column + 1 in both, for the profile of a row is even; in row 0, its own mirror image, it is halved.
    """
    row, column, step, bend, work = room
    x, y, weight, slope = work[0], work[1], work[2], work[3]
    count = _rim(radius, rows, normals, apothem, x, y)
    _soften(count, radius, normals, apothem, x, y, weight, slope)
    y[count] = np.float32(1e9)  # no row: ends the last one
    weight[count] = slope[count] = np.float32(0.0)
    if normals.shape[0] == 0:
        for i in range(count):
            on = y[i + 1] == y[i]
            share = 0.5 if y[i] == 0 else 1.0
            step[i] = share * (float(weight[i]) - (float(weight[i + 1]) if on else 0.0))
            bend[i] = share * (float(slope[i]) - (float(slope[i + 1]) if on else 0.0))
        for i in range(count):
            row[i], column[i] = int(y[i]), int(x[i])
        return count
    entry = 0
    before, before_slope = 0.0, 0.0
    for i in range(count):
        row[entry], column[entry] = int(y[i]), int(x[i])
        step[entry], bend[entry] = float(weight[i]) - before, float(slope[i]) - before_slope
        before, before_slope = float(weight[i]), float(slope[i])
        entry += 1
        if y[i + 1] != y[i]:
            row[entry], column[entry] = int(y[i]), int(x[i]) + 1
            step[entry], bend[entry] = -before, -before_slope
            before, before_slope = 0.0, 0.0
            entry += 1
    return entry


@compiled
def _norm(radius, unit, disc, count, column, step, bend):
    """norm(r) and its derivative: r² + 0.2, or the sum of all weights, which is −Σ column · step over all steps."""
    if not unit:
        return radius * radius + 0.2, 2.0 * radius
    total, slope = 0.0, 0.0
    for e in range(count):
        arm = 2.0 * (2.0 * column[e] + 1.0) if disc else -1.0 * column[e]
        total += arm * step[e]
        slope += arm * bend[e]
    return total, slope


@compiled
def _clip_row(t, rows):
    return np.uintp(t if 0 <= t < rows else rows)


@compiled
def _clip_column(c, width):
    """Left of the picture a step is in force from the first column on; right of it, it goes to the spare one."""
    return np.uintp(min(max(c, 0), width))


@compiled
def _add(light, t, c, s, v):
    light[t, c, 0] += s * v[0]
    light[t, c, 1] += s * v[1]
    light[t, c, 2] += s * v[2]
    light[t, c, 3] += s * v[3]


@compiled
def make_room(largest, apothem):
    """Arrays for the largest footprint. The rim is at most 2/apothem pixels wide: some 30 steps per pixel of radius."""
    size = 64 * (int(largest + RIM / apothem) + 8)
    row, column = np.zeros(size, np.int64), np.zeros(size, np.int64)
    return row, column, np.zeros(size), np.zeros(size), np.zeros((4, size), np.float32)


@compiled
def forward_rows(first, last, values, radius, normals, apothem, unit, out):
    """Fill target rows [first, last) of `out` (H, W, 4) float32 with the light that all sources send there."""
    height, width = radius.shape
    largest = radius.max()
    rows = int(largest) + CHUNK if unit else height
    room = make_room(largest, apothem)
    row, column, step, bend, _ = room
    band = last - first
    light = np.zeros((band + 1, width + 1, 4))
    reach = int(largest + RIM / apothem)
    disc = normals.shape[0] == 0
    last_radius, count, norm = -1.0, 0, 1.0
    for y in range(max(0, first - reach), min(height, last + reach)):
        for x in range(width):
            r = float(radius[y, x])
            near = int(r + RIM / apothem)
            if y + near < first or y - near >= last:
                continue
            if r != last_radius:
                count = footprint(r, rows, normals, apothem, room)
                norm, _ = _norm(r, unit, disc, count, column, step, bend)
                last_radius = r
            v = (values[y, x, 0] / norm, values[y, x, 1] / norm, values[y, x, 2] / norm, values[y, x, 3] / norm)
            home = y - first
            if disc:
                for e in range(np.uintp(count)):
                    below, above = _clip_row(home + row[e], band), _clip_row(home - row[e], band)
                    left, right = _clip_column(x - column[e], width), _clip_column(x + column[e] + 1, width)
                    s = step[e]
                    _add(light, below, left, s, v)
                    _add(light, above, left, s, v)
                    _add(light, below, right, -s, v)
                    _add(light, above, right, -s, v)
            else:
                for e in range(np.uintp(count)):
                    _add(light, _clip_row(home + row[e], band), _clip_column(x + column[e], width), step[e], v)
    for t in range(band):
        s0 = s1 = s2 = s3 = 0.0
        for x in range(width):
            s0 += light[t, x, 0]
            s1 += light[t, x, 1]
            s2 += light[t, x, 2]
            s3 += light[t, x, 3]
            out[first + t, x, 0] = s0
            out[first + t, x, 1] = s1
            out[first + t, x, 2] = s2
            out[first + t, x, 3] = s3


@compiled
def suffix_rows(first, last, grad, sums):
    """sums[y, x] = Σ grad[y, x:]: (H, W, 4) → (H + 1, W + 1, 4) float64 whose last row and column are zero."""
    for y in range(first, last):
        for x in range(grad.shape[1] - 1, -1, -1):
            for c in range(4):
                sums[y, x, c] = sums[y, x + 1, c] + grad[y, x, c]


@compiled
def backward_rows(first, last, values, radius, normals, apothem, unit, sums, grad_values, grad_radius):  # noqa: PLR0913, PLR0917
    """Gradients of source rows [first, last) from the suffix sums of the targets' gradients.

    With A = Σ_j edge·grad_j and B = Σ_j ∂edge/∂r·grad_j: ∂values = A/norm and ∂r = (B − A·norm'/norm)·values / norm.
    """
    height, width = radius.shape
    largest = radius.max()
    rows = int(largest) + CHUNK if unit else height
    room = make_room(largest, apothem)
    row, column, step, bend, _ = room
    disc = normals.shape[0] == 0
    last_radius, count, norm, slope = -1.0, 0, 1.0, 0.0
    for y in range(first, last):
        for x in range(width):
            r = float(radius[y, x])
            if r != last_radius:
                count = footprint(r, rows, normals, apothem, room)
                norm, slope = _norm(r, unit, disc, count, column, step, bend)
                last_radius = r
            a0 = a1 = a2 = a3 = 0.0
            b0 = b1 = b2 = b3 = 0.0
            for e in range(np.uintp(count)):
                t = _clip_row(y + row[e], height)
                if disc:
                    u = _clip_row(y - row[e], height)
                    c, d = _clip_column(x - column[e], width), _clip_column(x + column[e] + 1, width)
                    g0 = sums[t, c, 0] + sums[u, c, 0] - sums[t, d, 0] - sums[u, d, 0]
                    g1 = sums[t, c, 1] + sums[u, c, 1] - sums[t, d, 1] - sums[u, d, 1]
                    g2 = sums[t, c, 2] + sums[u, c, 2] - sums[t, d, 2] - sums[u, d, 2]
                    g3 = sums[t, c, 3] + sums[u, c, 3] - sums[t, d, 3] - sums[u, d, 3]
                else:
                    c = _clip_column(x + column[e], width)
                    g0, g1, g2, g3 = sums[t, c, 0], sums[t, c, 1], sums[t, c, 2], sums[t, c, 3]
                s, b = step[e], bend[e]
                a0 += s * g0
                a1 += s * g1
                a2 += s * g2
                a3 += s * g3
                b0 += b * g0
                b1 += b * g1
                b2 += b * g2
                b3 += b * g3
            grad_values[y, x, 0] = a0 / norm
            grad_values[y, x, 1] = a1 / norm
            grad_values[y, x, 2] = a2 / norm
            grad_values[y, x, 3] = a3 / norm
            q = slope / norm
            total = (b0 - a0 * q) * values[y, x, 0] + (b1 - a1 * q) * values[y, x, 1]
            total += (b2 - a2 * q) * values[y, x, 2] + (b3 - a3 * q) * values[y, x, 3]
            grad_radius[y, x] += total / norm
