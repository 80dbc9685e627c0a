"""Projection of Gaussians to the screen in numba, with its gradient: the CPU version of `reference.project`.

One Gaussian at a time, in float64 (the arithmetic is scalar, so precision is free), from and to float32 arrays. With W
the world-to-camera rotation (x right, y down, z ahead), J the Jacobian of the perspective at the mean and M the
Gaussian's scaled axes, the screen covariance is T Tᵀ, T = J W M. The backward pass recomputes T: cheaper than to store
it. Small matrices are tuples, row by row, so that they stay in registers.

`view` (20,) holds W row by row, the camera's position, fx, fy, cx, cy, width, height, aperture and focus disparity;
`style` (7,) the radius of the sub-aperture, the part of the low-pass that does not reduce opacity, near, the number of
harmonics, and the light curve's gamma, shift and knee. g_x is the gradient of x.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dofnerf.camera import Camera
from dofnerf.models.splat.gaussians import FAINTEST, LARGEST, LOST, LOW_PASS, MARGIN, Gaussians, Projected, Style
from dofnerf.models.splat.raster.reference import C0, C1, C2, C3
from dofnerf.optics.kernels import compiled, run_jobs
from dofnerf.optics.light import curve_pieces


def project(
    gaussians: Gaussians, camera: Camera, aperture: Tensor, focus_disparity: Tensor, radius: float, style: Style
) -> Projected:
    """As `raster.project`."""
    return Projected(*_Project.apply((camera, radius, style), aperture, focus_disparity, *gaussians))


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, shot: tuple[Camera, float, Style], aperture: Tensor, focus: Tensor, *gaussians: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        camera, radius, style = shot
        count, kinds = gaussians[4].shape[:2]
        arrays = [tensor.detach().contiguous().numpy() for tensor in gaussians]
        to_camera = camera.camera_to_world[:, :3].T * [[1], [-1], [-1]]  # x right, y down, z ahead
        numbers = (
            camera.fx,
            camera.fy,
            camera.cx,
            camera.cy,
            camera.width,
            camera.height,
            float(aperture),
            float(focus),
        )
        view = np.array([*to_camera.reshape(-1), *camera.position, *numbers], dtype=np.float64)
        kept, kinds = 0.0 if style.antialiased else LOW_PASS, min(kinds, (style.degree + 1) ** 2)
        options = np.array([radius, kept, style.near, kinds, *curve_pieces(style.light)], dtype=np.float64)
        out = torch.empty(count, 10), torch.empty(count), torch.empty(count)
        run_jobs(_project_forward, count, (*arrays, view, options, *(tensor.numpy() for tensor in out)))
        ctx.given = (*arrays, view, options, out[0].numpy(), out[1].numpy())
        ctx.mark_non_differentiable(out[1], out[2])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        out = [torch.zeros(array.shape) for array in ctx.given[:5]]
        lens = np.zeros((len(out[0]), 2), np.float32)
        g_table = grads[0].contiguous().numpy()
        run_jobs(_project_backward, len(lens), (*ctx.given, g_table, *(tensor.numpy() for tensor in out), lens))
        both = torch.from_numpy(lens.sum(axis=0, dtype=np.float64)).float()
        return None, both[0], both[1], *out


@compiled
def _local(i, means, view):
    """The mean in camera coordinates."""
    x, y, z = means[i, 0] - view[9], means[i, 1] - view[10], means[i, 2] - view[11]
    u, v = view[0] * x + view[1] * y + view[2] * z, view[3] * x + view[4] * y + view[5] * z
    return u, v, view[6] * x + view[7] * y + view[8] * z


@compiled
def _clamped(slope, focal, centre, size):
    """The slope clamped to the picture and a margin around it; and whether it was clamped."""
    low, high = -centre / focal, (size - centre) / focal
    margin = MARGIN * (high - low) / 2
    if slope < low - margin:
        return low - margin, True
    if slope > high + margin:
        return high + margin, True
    return slope, False


@compiled
def _unit_quaternion(i, rotations):
    """(w, x, y, z), and one over the original length."""
    w, x, y, z = float(rotations[i, 0]), float(rotations[i, 1]), float(rotations[i, 2]), float(rotations[i, 3])
    n = 1 / max(math.sqrt(w * w + x * x + y * y + z * z), 1e-12)
    return w * n, x * n, y * n, z * n, n


@compiled
def _rotation(w, x, y, z):
    """The rotation matrix."""
    return (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip


@compiled
def _slopes(zoom_x, tilt_x, zoom_y, tilt_y, view):
    """J W, two rows of three."""
    return (
        zoom_x * view[0] + tilt_x * view[6], zoom_x * view[1] + tilt_x * view[7], zoom_x * view[2] + tilt_x * view[8],
        zoom_y * view[3] + tilt_y * view[6], zoom_y * view[4] + tilt_y * view[7], zoom_y * view[5] + tilt_y * view[8],
    )  # fmt: skip


@compiled
def _axes(j, r, scales):
    """T = J W M, two rows of three."""
    return (
        (j[0] * r[0] + j[1] * r[3] + j[2] * r[6]) * scales[0],
        (j[0] * r[1] + j[1] * r[4] + j[2] * r[7]) * scales[1],
        (j[0] * r[2] + j[1] * r[5] + j[2] * r[8]) * scales[2],
        (j[3] * r[0] + j[4] * r[3] + j[5] * r[6]) * scales[0],
        (j[3] * r[1] + j[4] * r[4] + j[5] * r[7]) * scales[1],
        (j[3] * r[2] + j[4] * r[5] + j[5] * r[8]) * scales[2],
    )


@compiled
def _covariance(t):
    """xx, xy and yy of T Tᵀ."""
    return (
        t[0] * t[0] + t[1] * t[1] + t[2] * t[2],
        t[0] * t[3] + t[1] * t[4] + t[2] * t[5],
        t[3] * t[3] + t[4] * t[4] + t[5] * t[5],
    )


@compiled
def _direction(u, v, z, view, seen):
    """Fills `seen` (3,), the unit vector from the camera in world axes; returns one over the distance."""
    n = 1 / math.sqrt(u * u + v * v + z * z)
    for k in range(3):
        seen[k] = (view[k] * u + view[3 + k] * v + view[6 + k] * z) * n
    return n


@compiled
def _linear(display, style):
    """`optics.to_linear` of one value."""
    gamma, shift, knee = style[4], style[5], style[6]
    if display <= 0:
        return 0.0
    if gamma == 1.0:
        return display
    if display <= knee:
        return display / knee * ((knee + shift) / (1 + shift)) ** gamma
    return float(np.float32((display + shift) / (1 + shift)) ** np.float32(gamma))


@compiled
def _linear_slope(display, light, style):
    """Derivative of `_linear` at `display`, given its value."""
    gamma, shift, knee = style[4], style[5], style[6]
    if display <= 0:
        return 0.0
    return light / display if display <= knee or gamma == 1.0 else gamma * light / (display + shift)


@compiled
def _project_forward(first, last, means, log_scales, rotations, logits, harmonics, view, style, table, reach, depth):  # noqa: PLR0913, PLR0917
    """Fill rows [first, last) of `table` (N, 10), `reach` and `depth` (N,)."""
    seen, harmonic = np.empty(3), np.empty(16)
    kinds = int(style[3])
    for i in range(first, last):
        reach[i] = 0.0
        for k in range(10):
            table[i, k] = 0.0
        u, v, z = _local(i, means, view)
        depth[i] = z
        solid = 1 / (1 + math.exp(-logits[i]))
        if not (z > style[2] and solid > FAINTEST):
            continue
        near = 1 / z
        slope_x, _ = _clamped(u * near, view[12], view[14], view[16])
        slope_y, _ = _clamped(v * near, view[13], view[15], view[17])
        zoom_x, zoom_y = view[12] * near, view[13] * near
        column, row = view[14] + zoom_x * u, view[15] + zoom_y * v
        w, x, y, q, _ = _unit_quaternion(i, rotations)
        scales = math.exp(log_scales[i, 0]), math.exp(log_scales[i, 1]), math.exp(log_scales[i, 2])
        xx, xy, yy = _covariance(
            _axes(_slopes(zoom_x, -zoom_x * slope_x, zoom_y, -zoom_y * slope_y, view), _rotation(w, x, y, q), scales)
        )
        blur = view[18] * (view[19] - near)
        grown = LOW_PASS + (style[0] * blur) ** 2 / 4
        flat = max(xx * yy - xy * xy, 0.0)
        det = flat + grown * (xx + yy) + grown * grown
        kept = max(flat + style[1] * (xx + yy) + style[1] * style[1], 1e-30)
        opacity = solid * math.sqrt(kept / det)
        lost = min(FAINTEST / max(opacity, 1e-30), max(FAINTEST / solid, LOST))
        ends = -2 * math.log(np.float32(min(lost, 1.0)))
        half_x, half_y = math.sqrt(ends * (xx + grown)) + abs(blur), math.sqrt(ends * (yy + grown)) + abs(blur)
        if not (column + half_x > 0 and column - half_x < view[16] and row + half_y > 0 and row - half_y < view[17]):
            continue
        if not (ends > 0 and det < LARGEST):
            continue
        _direction(u, v, z, view, seen)
        _basis(seen, kinds, harmonic)
        red, green, blue = _colour(i, kinds, harmonic, harmonics)
        table[i, 0], table[i, 1] = column, row
        over = 1 / det
        table[i, 2], table[i, 3], table[i, 4] = (yy + grown) * over, -xy * over, (xx + grown) * over
        table[i, 5] = opacity
        table[i, 6], table[i, 7], table[i, 8] = _linear(red, style), _linear(green, style), _linear(blue, style)
        table[i, 9] = near
        reach[i] = ends


@compiled
def _project_backward(  # noqa: PLR0913, PLR0917
    first, last, means, log_scales, rotations, logits, harmonics, view, style, table, reach, g_table,
    g_means, g_scales, g_rotations, g_logits, g_harmonics, g_lens,
):  # fmt: skip
    """Gradients of Gaussians [first, last), initially 0, from `g_table` (N, 10), that of the table.

    `g_lens` (N, 2) is each Gaussian's part of the gradients of aperture and focus disparity.
    """
    seen, harmonic, g_seen, g_harmonic = np.empty(3), np.empty(16), np.empty(3), np.empty(16)
    kinds = int(style[3])
    fx, fy, aperture, focus = view[12], view[13], view[18], view[19]
    for i in range(first, last):
        if reach[i] <= 0:
            continue
        u, v, z = _local(i, means, view)
        near = 1 / z
        slope_x, clamped_x = _clamped(u * near, fx, view[14], view[16])
        slope_y, clamped_y = _clamped(v * near, fy, view[15], view[17])
        zoom_x, zoom_y = fx * near, fy * near
        qw, qx, qy, qz, over_length = _unit_quaternion(i, rotations)
        scales = math.exp(log_scales[i, 0]), math.exp(log_scales[i, 1]), math.exp(log_scales[i, 2])
        j, r = _slopes(zoom_x, -zoom_x * slope_x, zoom_y, -zoom_y * slope_y, view), _rotation(qw, qx, qy, qz)
        t = _axes(j, r, scales)
        xx, xy, yy = _covariance(t)
        radius = style[0] * aperture * (focus - near)
        grown = LOW_PASS + radius * radius / 4
        flat = max(xx * yy - xy * xy, 0.0)
        over = 1 / (flat + grown * (xx + yy) + grown * grown)
        kept = flat + style[1] * (xx + yy) + style[1] * style[1]

        # Conic K = Σ'⁻¹, so dΣ' = −K dK K. The table holds K's off-diagonal once.
        a, b, c = (yy + grown) * over, -xy * over, (xx + grown) * over
        ga, gb, gc = float(g_table[i, 2]), float(g_table[i, 3]) / 2, float(g_table[i, 4])
        ma, mb, mc, md = ga * a + gb * b, ga * b + gb * c, gb * a + gc * b, gb * b + gc * c
        g_xx, g_xy, g_yy = -(a * ma + b * mc), -2 * (a * mb + b * md), -(b * mb + c * md)
        # Opacity = sigmoid · sqrt(kept / det).
        light = float(g_table[i, 5]) * table[i, 5]
        g_logits[i] = light / (1 + math.exp(logits[i]))
        g_det = -light * over / 2
        g_xx += g_det * (yy + grown)
        g_yy += g_det * (xx + grown)
        g_xy -= g_det * 2 * xy
        g_radius = style[0] * (g_xx + g_yy) * radius / 2
        if kept > 1e-30:
            g_kept = light / (2 * kept)
            g_xx += g_kept * (yy + style[1])
            g_yy += g_kept * (xx + style[1])
            g_xy -= g_kept * 2 * xy

        # T Tᵀ → T → M and J; g is the gradient of T times the scales, so of J W R.
        p0, p1, p2 = 2 * g_xx * t[0] + g_xy * t[3], 2 * g_xx * t[1] + g_xy * t[4], 2 * g_xx * t[2] + g_xy * t[5]
        p3, p4, p5 = 2 * g_yy * t[3] + g_xy * t[0], 2 * g_yy * t[4] + g_xy * t[1], 2 * g_yy * t[5] + g_xy * t[2]
        g_scales[i, 0], g_scales[i, 1], g_scales[i, 2] = (
            p0 * t[0] + p3 * t[3],
            p1 * t[1] + p4 * t[4],
            p2 * t[2] + p5 * t[5],
        )
        g = p0 * scales[0], p1 * scales[1], p2 * scales[2], p3 * scales[0], p4 * scales[1], p5 * scales[2]
        _rotation_gradient(i, qw, qx, qy, qz, over_length, j, g, g_rotations)
        gx0, gx1, gx2 = _row_times(g[0], g[1], g[2], r)
        gy0, gy1, gy2 = _row_times(g[3], g[4], g[5], r)
        g_tilt_x = gx0 * view[6] + gx1 * view[7] + gx2 * view[8]
        g_tilt_y = gy0 * view[6] + gy1 * view[7] + gy2 * view[8]
        g_zoom_x = gx0 * view[0] + gx1 * view[1] + gx2 * view[2] - g_tilt_x * slope_x
        g_zoom_y = gy0 * view[3] + gy1 * view[4] + gy2 * view[5] - g_tilt_y * slope_y
        g_slope_x = fx * g_table[i, 0] - (0.0 if clamped_x else g_tilt_x * zoom_x)
        g_slope_y = fy * g_table[i, 1] - (0.0 if clamped_y else g_tilt_y * zoom_y)
        g_u, g_v = g_slope_x * near, g_slope_y * near
        g_disparity = float(g_table[i, 9]) - g_radius * aperture
        g_z = -(g_slope_x * u + g_slope_y * v + g_zoom_x * fx + g_zoom_y * fy + g_disparity) * near * near

        over_distance = _direction(u, v, z, view, seen)
        _basis(seen, kinds, harmonic)
        red, green, blue = _colour(i, kinds, harmonic, harmonics)
        g_red = g_table[i, 6] * _linear_slope(red, table[i, 6], style)
        g_green = g_table[i, 7] * _linear_slope(green, table[i, 7], style)
        g_blue = g_table[i, 8] * _linear_slope(blue, table[i, 8], style)
        for k in range(kinds):
            g_harmonics[i, k, 0], g_harmonics[i, k, 1] = g_red * harmonic[k], g_green * harmonic[k]
            g_harmonics[i, k, 2] = g_blue * harmonic[k]
        if kinds > 1:
            for k in range(kinds):
                g_harmonic[k] = g_red * harmonics[i, k, 0] + g_green * harmonics[i, k, 1] + g_blue * harmonics[i, k, 2]
            _basis_gradient(seen, kinds, g_harmonic, g_seen)
            along = g_seen[0] * seen[0] + g_seen[1] * seen[1] + g_seen[2] * seen[2]
            x, y = (
                (g_seen[0] - along * seen[0]) * over_distance,
                (g_seen[1] - along * seen[1]) * over_distance,
            )
            w = (g_seen[2] - along * seen[2]) * over_distance
            g_u += view[0] * x + view[1] * y + view[2] * w
            g_v += view[3] * x + view[4] * y + view[5] * w
            g_z += view[6] * x + view[7] * y + view[8] * w

        for k in range(3):
            g_means[i, k] = view[k] * g_u + view[3 + k] * g_v + view[6 + k] * g_z
        g_lens[i, 0], g_lens[i, 1] = g_radius * (focus - near), g_radius * aperture


@compiled
def _row_times(g0, g1, g2, r):
    """A row of the gradient of J W R → that row of J W's."""
    return g0 * r[0] + g1 * r[1] + g2 * r[2], g0 * r[3] + g1 * r[4] + g2 * r[5], g0 * r[6] + g1 * r[7] + g2 * r[8]


@compiled
def _rotation_gradient(i, w, x, y, z, over_length, j, g, g_rotations):  # noqa: PLR0913, PLR0917
    """From the gradient of J W R that of the quaternion, before it was normalised."""
    g00, g01, g02 = j[0] * g[0] + j[3] * g[3], j[0] * g[1] + j[3] * g[4], j[0] * g[2] + j[3] * g[5]
    g10, g11, g12 = j[1] * g[0] + j[4] * g[3], j[1] * g[1] + j[4] * g[4], j[1] * g[2] + j[4] * g[5]
    g20, g21, g22 = j[2] * g[0] + j[5] * g[3], j[2] * g[1] + j[5] * g[4], j[2] * g[2] + j[5] * g[5]
    g_w = 2 * (x * (g21 - g12) + y * (g02 - g20) + z * (g10 - g01))
    g_x = 2 * (y * (g01 + g10) + z * (g02 + g20) + w * (g21 - g12) - 2 * x * (g11 + g22))
    g_y = 2 * (x * (g01 + g10) + z * (g12 + g21) + w * (g02 - g20) - 2 * y * (g00 + g22))
    g_z = 2 * (x * (g02 + g20) + y * (g12 + g21) + w * (g10 - g01) - 2 * z * (g00 + g11))
    along = g_w * w + g_x * x + g_y * y + g_z * z
    g_rotations[i, 0] = (g_w - along * w) * over_length
    g_rotations[i, 1] = (g_x - along * x) * over_length
    g_rotations[i, 2] = (g_y - along * y) * over_length
    g_rotations[i, 3] = (g_z - along * z) * over_length


@compiled
def _basis(seen, count, out):
    """Fill out[:count] with `reference.basis` of the unit direction `seen` (3,)."""
    out[0] = C0
    if count == 1:
        return
    x, y, z = seen[0], seen[1], seen[2]
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
def _basis_gradient(seen, count, g, out):
    """Fill `out` (3,), the gradient of the direction, from `g` (count,), that of the harmonics."""
    x, y, z = seen[0], seen[1], seen[2]
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
def _colour(i, kinds, harmonic, harmonics):
    """The colour of Gaussian i in display values, before it is clamped at 0."""
    red = green = blue = 0.5
    for k in range(kinds):
        red += harmonic[k] * harmonics[i, k, 0]
        green += harmonic[k] * harmonics[i, k, 1]
        blue += harmonic[k] * harmonics[i, k, 2]
    return red, green, blue
