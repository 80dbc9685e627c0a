"""The numba kernels behind cpu.py.

Adding a source to the light means adding the steps of its footprint; a running sum along each row then gives the
weights. The adjoint of a running sum is a suffix sum, so the backward pass reads the same steps against suffix sums of
the gradient. Steps that fall outside go, without a branch, to a spare row or column.

`normals` and `apothem` describe the aperture (see cpu_footprint.py), `unit` the norm. `radius` is (H, W) float32,
`values` and gradients (H, W, 4). Kernels work on the band of rows [first, last).
"""

from __future__ import annotations

import numpy as np

from dofnerf.optics.kernels import compiled
from dofnerf.optics.scattering.cpu_footprint import CHUNK, footprint, make_room, norm_of, step_at
from dofnerf.optics.shapes import RIM


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
