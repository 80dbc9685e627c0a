"""The numba kernels behind cpu.py.

The *footprint* of a source: points near the rim of its soft disc or polygon, and from them its steps. At (row, column)
from the source, a step says by how much the weight changes from the column before. A row of flat weight is two steps
however long it is, so a footprint has O(r) of them. `normals` (n, 2) and `apothem` describe the polygon (n = 0: a
disc).

A footprint lies in an array (4, size) float32: column x, row y, weight, and bend = ∂weight/∂r of points 1 … count, row
by row; before and after them stands a point of no row. Of a disc only the quarter x, y ≥ 0 is kept: a step at (row,
−column) stands also at −row, and turned around at column + 1 in both, for the profile of a row is even; in row 0, its
own mirror image, it is halved. Indices are cast to unsigned so that numba drops its check for negative ones; the loops
over points vectorise.

Adding a source to the light means adding the steps of its footprint; a running sum along each row then gives the
weights. The adjoint of a running sum is a suffix sum, so the backward pass reads the same steps against suffix sums of
the gradient. Steps that fall outside go, without a branch, to a spare row or column. `radius` is (H, W) float32,
`values` and gradients (H, W, 4); `unit` is the norm. Kernels work on the band of rows [first, last).
"""

from __future__ import annotations

import math

import numpy as np

from dofnerf.optics.kernels import compiled
from dofnerf.optics.shapes import RIM, STEEPNESS, STRETCH

NO_ROW = np.float32(1e9)
CHUNK = 8  # points are written by the register, so arrays have this much room to spare


@compiled
def _span(row, radius, normals, apothem):
    """The columns (low, high) that a convex aperture of this (circum)radius covers in a row, as floats; low > high:
    none."""
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
    """Points (column x, row y) near the rim: all not surely flat, and the last flat one each side. Returns the last's
    index.

    Spans are safe by a little: a point too many costs time, not truth. Each row of a polygon ends with a point outside.
    """
    margin = RIM / apothem  # k·r ± 1 lies between the polygons of circumradius r ± 1/apothem
    span = min(int(radius + margin), rows)
    count = 1
    if normals.shape[0] == 0:
        outer, inner = (radius + margin) ** 2, max(radius - margin, 0.0) ** 2
        for row in range(span + 1):
            low = int(math.sqrt(max(inner - row * row, 0.0)) - 1e-3)
            high = int(math.sqrt(max(outer - row * row, 0.0)) + 1e-3)
            count = _put(count, row, low, high, x, y)
        return count - 1
    for row in range(-span, span + 1):
        low, high = _span(float(row), radius + margin, normals, apothem)
        outer, outer_end = math.ceil(low - 1e-3), math.floor(high + 1e-3)
        low, high = _span(float(row), radius - margin, normals, apothem)
        flat, flat_end = math.ceil(low + 1e-3), math.floor(high - 1e-3)
        if outer_end < outer:
            continue
        if flat_end <= flat:
            flat, flat_end = outer_end, outer_end + 1
        count = _put(count, row, outer, flat, x, y)
        count = _put(count, row, flat_end, outer_end + 1, x, y)
    return count - 1


@compiled
def _soften(count, radius, normals, apothem, x, y, weight, bend):
    """Of points (x, y): weight = edge(k·r − l) and bend = its derivative by r."""
    half = np.float32(0.5 * STRETCH)
    rim, steep = np.float32(RIM), np.float32(STEEPNESS)
    radius, apothem = np.float32(radius), np.float32(apothem)
    if normals.shape[0] > 0:  # the projection on the nearest blade's normal
        for i in range(1, count + 1):
            bend[i] = np.float32(1e-20)
        for n in range(normals.shape[0]):
            nx, ny = np.float32(normals[n, 0]), np.float32(normals[n, 1])
            for i in range(1, count + 1):
                bend[i] = max(bend[i], x[i] * nx + y[i] * ny)
        for i in range(1, count + 1):
            length = np.sqrt(x[i] * x[i] + y[i] * y[i])
            bend[i] = apothem * length / bend[i] if length > 0 else apothem
    else:
        for i in range(1, count + 1):
            bend[i] = np.float32(1.0)
    for i in range(1, count + 1):
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
def footprint(radius, rows, normals, apothem, points):
    """Fill `points` with a source's footprint; returns the index of the last. Rows more than `rows` away are left
    out."""
    x, y, weight, bend = points[0], points[1], points[2], points[3]
    count = _rim(radius, rows, normals, apothem, x, y)
    _soften(count, radius, normals, apothem, x, y, weight, bend)
    y[0] = y[count + 1] = NO_ROW
    return count


@compiled
def step_at(i, disc, y, value):
    """The step of `value` (weight or bend) at point i: from the column before, or, of a disc, to the one after."""
    row = y[i]
    if disc:
        after = float(value[np.uintp(i + 1)]) if y[np.uintp(i + 1)] == row else 0.0
        return (float(value[i]) - after) * (0.5 if row == 0 else 1.0)
    before = float(value[np.uintp(i - 1)]) if y[np.uintp(i - 1)] == row else 0.0
    return float(value[i]) - before


@compiled
def norm_of(radius, unit, disc, count, points):
    """norm(r) and its derivative: r² + 0.2, or the sum of all weights, which is −Σ column · step over all steps."""
    if not unit:
        return radius * radius + 0.2, 2.0 * radius
    x, y, weight, bend = points[0], points[1], points[2], points[3]
    total, slope = 0.0, 0.0
    for i in range(np.uintp(1), np.uintp(count + 1)):
        arm = 2.0 * (2.0 * x[i] + 1.0) if disc else -1.0 * x[i]
        total += arm * step_at(i, disc, y, weight)
        slope += arm * step_at(i, disc, y, bend)
    return total, slope


@compiled
def make_room(largest, apothem):
    """An array for the largest footprint. The rim is at most 2/apothem pixels wide: some 30 points per pixel of
    radius."""
    return np.zeros((4, 64 * (int(largest + RIM / apothem) + 8)), np.float32)


@compiled
def _first_from(row, count, y):
    """The index of the first of the points 1 … count, sorted by row, in this row or a later one; count + 1 if there is
    none."""
    low, high = 1, count + 1
    while low < high:
        middle = (low + high) // 2
        if y[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


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
def forward_rows(first, last, values, radius, normals, apothem, unit, out):
    """Fill target rows [first, last) of `out` (H, W, 4) float32 with the light that all sources send there."""
    height, width = radius.shape
    largest = radius.max()
    rows = int(largest) + CHUNK if unit else height
    points = make_room(largest, apothem)
    x_of, y_of, weight = points[0], points[1], points[2]
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
                count = footprint(r, rows, normals, apothem, points)
                norm, _ = norm_of(r, unit, disc, count, points)
                last_radius = r
            v = (values[y, x, 0] / norm, values[y, x, 1] / norm, values[y, x, 2] / norm, values[y, x, 3] / norm)
            home = y - first
            # Points lie row by row, so those whose rows miss the band are passed over as a block.
            begin, end = 1, count + 1
            if home < 0 or not disc:
                begin, end = _first_from(-home, count, y_of), _first_from(band - home, count, y_of)
            elif home >= band:
                begin, end = _first_from(home - band + 1, count, y_of), _first_from(home + 1, count, y_of)
            if disc:
                for i in range(np.uintp(begin), np.uintp(end)):
                    row, column = int(y_of[i]), int(x_of[i])
                    below, above = _clip_row(home + row, band), _clip_row(home - row, band)
                    left, right = _clip_column(x - column, width), _clip_column(x + column + 1, width)
                    s = step_at(i, True, y_of, weight)
                    _add(light, below, left, s, v)
                    _add(light, above, left, s, v)
                    _add(light, below, right, -s, v)
                    _add(light, above, right, -s, v)
            else:
                for i in range(np.uintp(begin), np.uintp(end)):
                    t, c = _clip_row(home + int(y_of[i]), band), _clip_column(x + int(x_of[i]), width)
                    _add(light, t, c, step_at(i, False, y_of, weight), v)
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
    points = make_room(largest, apothem)
    x_of, y_of, weight, bend = points[0], points[1], points[2], points[3]
    disc = normals.shape[0] == 0
    last_radius, count, norm, slope = -1.0, 0, 1.0, 0.0
    for y in range(first, last):
        for x in range(width):
            r = float(radius[y, x])
            if r != last_radius:
                count = footprint(r, rows, normals, apothem, points)
                norm, slope = norm_of(r, unit, disc, count, points)
                last_radius = r
            a0 = a1 = a2 = a3 = 0.0
            b0 = b1 = b2 = b3 = 0.0
            for i in range(np.uintp(1), np.uintp(count + 1)):
                row, column = int(y_of[i]), int(x_of[i])
                t = _clip_row(y + row, height)
                if disc:
                    u = _clip_row(y - row, height)
                    c, d = _clip_column(x - column, width), _clip_column(x + column + 1, width)
                    g0 = sums[t, c, 0] + sums[u, c, 0] - sums[t, d, 0] - sums[u, d, 0]
                    g1 = sums[t, c, 1] + sums[u, c, 1] - sums[t, d, 1] - sums[u, d, 1]
                    g2 = sums[t, c, 2] + sums[u, c, 2] - sums[t, d, 2] - sums[u, d, 2]
                    g3 = sums[t, c, 3] + sums[u, c, 3] - sums[t, d, 3] - sums[u, d, 3]
                else:
                    c = _clip_column(x + column, width)
                    g0, g1, g2, g3 = sums[t, c, 0], sums[t, c, 1], sums[t, c, 2], sums[t, c, 3]
                s, b = step_at(i, disc, y_of, weight), step_at(i, disc, y_of, bend)
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
