"""The numba kernels that blend a tile's Gaussians into its pixels, and bring gradients back: the twin of
`reference.rasterise`.

A tile's pixels lie row by row in short arrays, one after the other in one buffer, and the rows that a Gaussian touches
are one run of them. The inner loops over such a run have no branches and fill whole registers; they start at 0 and stay
at constant distances from each other, without which the compiler would not see that the arrays do not overlap. exp is a
polynomial: the arguments lie between −5.6 and 0, so exp(p) = exp(p/8)⁸ needs no tricks with bits.

Backward walks front to back as well. With v_i what one unit of Gaussian i's weight adds to the loss at a pixel, w_i =
α_i T_i, the total Σ w_i v_i is known beforehand from the finished picture. So what lies behind Gaussian i, `rest`, is
the total less what has been passed, and ∂/∂α_i = T_i v_i − rest / (1 − α_i).
"""

from __future__ import annotations

import numpy as np

from dofnerf.models.splat.gaussians import OPAQUEST, STOP
from dofnerf.models.splat.raster.tile_kernels import HIGH, WIDE
from dofnerf.optics.kernels import compiled

AREA = WIDE * HIGH
_CHECK = 16  # entries after which a tile looks whether all its pixels are done
_ONE, _ZERO, _HALF = np.float32(1), np.float32(0), np.float32(0.5)
_OPAQUEST, _STOP = np.float32(OPAQUEST), np.float32(STOP)
_EIGHTH = np.float32(0.125)
# exp(x) on −0.7 … 0 by the polynomial of degree 5 with the least relative error, 9e-8, and the value 1 at 0
_E1, _E2, _E3 = np.float32(0.9999947626), np.float32(0.4998997786), np.float32(0.1660284053)
_E4, _E5 = np.float32(0.0398483114), np.float32(0.0058852542)


@compiled
def _exp(power):
    """exp of −5.6 … 0; beyond, something finite."""
    x = max(power, np.float32(-5.6)) * _EIGHTH
    y = _ONE + x * (_E1 + x * (_E2 + x * (_E3 + x * (_E4 + x * _E5))))
    y = y * y
    y = y * y
    return y * y


@compiled
def _places(buffer):
    """The first two arrays of a buffer: column and row of each pixel's centre in its tile."""
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
def forward_tiles(first, last, starts, entries, table, reach, light, disparity, alpha, used):  # noqa: PLR0913, PLR0917
    """Draw tiles [first, last): light (H, W, 3), disparity (H, W), alpha (H, W); `used` (tiles,): entries that were
    needed."""
    height, width = alpha.shape
    across = (width + WIDE - 1) // WIDE
    b = np.empty(7 * AREA, np.float32)  # column, row, transmittance, red, green, blue, disparity
    _places(b)
    for tile in range(first, last):
        x0, y0 = (tile % across) * WIDE, (tile // across) * HIGH
        rows, columns = min(HIGH, height - y0), min(WIDE, width - x0)
        for i in range(2 * AREA, 7 * AREA):
            b[i] = _ZERO
        for y in range(rows):
            for x in range(columns):
                b[2 * AREA + y * WIDE + x] = _ONE  # the pixels beyond the border stay 0, and count as done
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
def backward_tiles(  # noqa: PLR0913, PLR0917
    first, last, starts, entries, table, reach, used, light, disparity, alpha, g_light, g_disparity, g_alpha, parts
):
    """What tiles [first, last) say of each entry's row of the table → `parts` (slots, 10)."""
    height, width = alpha.shape
    across = (width + WIDE - 1) // WIDE
    b = np.empty(
        9 * AREA, np.float32
    )  # column, row, transmittance, rest, gradients of red, green, blue, disparity, alpha
    _places(b)
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
def tally_tiles(first, last, starts, entries, table, reach, values, parts):
    """Σ over pixels of weight · values (H, W, C), for tiles [first, last) → `parts` (slots, C)."""
    height, width, channels = values.shape
    across = (width + WIDE - 1) // WIDE
    b = np.empty(4 * AREA, np.float32)  # column, row, transmittance, weight
    _places(b)
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
