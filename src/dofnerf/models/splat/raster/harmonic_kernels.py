"""Spherical harmonics of one direction in numba, and their gradient: the twin of `harmonics.basis`."""

from __future__ import annotations

from dofnerf.models.splat.raster.harmonics import C0, C1, C2, C3
from dofnerf.optics.kernels import compiled


@compiled
def basis(direction, count, out):
    """Fill out[:count], count 1, 4, 9 or 16, for the unit `direction` (3,)."""
    out[0] = C0
    if count == 1:
        return
    x, y, z = direction[0], direction[1], direction[2]
    out[1], out[2], out[3] = -C1 * y, C1 * z, -C1 * x
    if count == 4:
        return
    xx, yy, zz = x * x, y * y, z * z
    out[4], out[5], out[6] = C2[0] * x * y, C2[1] * y * z, C2[2] * (2 * zz - xx - yy)
    out[7], out[8] = C2[3] * x * z, C2[4] * (xx - yy)
    if count == 9:
        return
    out[9], out[10], out[11] = C3[0] * y * (3 * xx - yy), C3[1] * x * y * z, C3[2] * y * (4 * zz - xx - yy)
    out[12], out[13] = C3[3] * z * (2 * zz - 3 * xx - 3 * yy), C3[4] * x * (4 * zz - xx - yy)
    out[14], out[15] = C3[5] * z * (xx - yy), C3[6] * x * (xx - 3 * yy)


@compiled
def basis_gradient(direction, count, g, out):
    """Fill `out` (3,) with the gradient of the direction's three numbers, from `g` (count,), that of the harmonics."""
    x, y, z = direction[0], direction[1], direction[2]
    gx, gy, gz = -C1 * g[3], -C1 * g[1], C1 * g[2]
    if count > 4:
        a, b, c, d, e = C2[0] * g[4], C2[1] * g[5], C2[2] * g[6], C2[3] * g[7], C2[4] * g[8]
        gx += a * y - 2 * c * x + d * z + 2 * e * x
        gy += a * x + b * z - 2 * c * y - 2 * e * y
        gz += b * y + 4 * c * z + d * x
    if count > 9:
        xx, yy, zz = x * x, y * y, z * z
        a, b, c, d = C3[0] * g[9], C3[1] * g[10], C3[2] * g[11], C3[3] * g[12]
        e, f, h = C3[4] * g[13], C3[5] * g[14], C3[6] * g[15]
        gx += 6 * a * x * y + b * y * z - 2 * c * x * y - 6 * d * x * z + e * (4 * zz - 3 * xx - yy) + 2 * f * x * z
        gx += 3 * h * (xx - yy)
        gy += 3 * a * (xx - yy) + b * x * z + c * (4 * zz - xx - 3 * yy) - 6 * d * y * z - 2 * e * x * y - 2 * f * y * z
        gy -= 6 * h * x * y
        gz += b * x * y + 8 * c * y * z + d * (6 * zz - 3 * xx - 3 * yy) + 8 * e * x * z + f * (xx - yy)
    out[0], out[1], out[2] = gx, gy, gz


@compiled
def shown(i, kinds, harmonic, harmonics):
    """The colour of Gaussian i, in display values, before it is cut off at 0."""
    red = green = blue = 0.5
    for k in range(kinds):
        red += harmonic[k] * harmonics[i, k, 0]
        green += harmonic[k] * harmonics[i, k, 1]
        blue += harmonic[k] * harmonics[i, k, 2]
    return red, green, blue
