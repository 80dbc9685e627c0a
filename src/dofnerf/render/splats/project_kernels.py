"""The numba kernels that bring Gaussians to the screen, and gradients back: the twin of `reference.project`.

One Gaussian at a time, in float64 (the arithmetic is scalar, so precision is free), from and to float32 arrays. With W the
world-to-camera rotation (x right, y down, z ahead), J the perspective's slope at the mean and M the Gaussian's scaled axes, the
screen covariance is T Tᵀ, T = J W M. The backward pass works T out again: cheaper than to fetch it.

`view` (22,) holds W row by row, the camera's position, fx, fy, cx, cy, width, height, aperture, focus disparity, and the point
of the lens (0, 0: its centre); `style` (7,) whether blur is on, the part of the low-pass that does not cost opacity, near, the
number of harmonics, and the light curve's gamma, shift and knee.
"""

from __future__ import annotations

import math

import numpy as np

from dofnerf.kernels import compiled
from dofnerf.render.splats.gaussians import FAINTEST, LOST, LOW_PASS, MARGIN
from dofnerf.render.splats.harmonic_kernels import basis, basis_gradient


@compiled
def _local(i, means, view):
    """The mean as seen from the point of the lens, and that point's offset in the lens's plane."""
    x, y, z = means[i, 0] - view[9], means[i, 1] - view[10], means[i, 2] - view[11]
    right, down = view[18] * view[20] / view[12], -view[18] * view[21] / view[13]
    u = view[0] * x + view[1] * y + view[2] * z - right
    v = view[3] * x + view[4] * y + view[5] * z - down
    return u, v, view[6] * x + view[7] * y + view[8] * z, right, down


@compiled
def _held(slope, focal, centre, size):
    """The slope, no further out than a margin beyond the picture; and whether it was held back."""
    low, high = -centre / focal, (size - centre) / focal
    margin = MARGIN * (high - low) / 2
    if slope < low - margin:
        return low - margin, True
    if slope > high + margin:
        return high + margin, True
    return slope, False


@compiled
def _rotation(i, rotations, matrix):
    """Fills `matrix` (3, 3); returns the unit quaternion and the length that it had."""
    w, x, y, z = float(rotations[i, 0]), float(rotations[i, 1]), float(rotations[i, 2]), float(rotations[i, 3])
    length = max(math.sqrt(w * w + x * x + y * y + z * z), 1e-12)
    w, x, y, z = w / length, x / length, y / length, z / length
    matrix[0, 0], matrix[0, 1], matrix[0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)
    matrix[1, 0], matrix[1, 1], matrix[1, 2] = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
    matrix[2, 0], matrix[2, 1], matrix[2, 2] = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)
    return w, x, y, z, length


@compiled
def _axes(u, v, z, view, scales, turn, slopes, axes):
    """Fills `slopes` (2, 3), J W, and `axes` (2, 3), T. Returns J's third column and what was held back."""
    zoom_x, zoom_y = view[12] / z, view[13] / z
    slope_x, held_x = _held(u / z, view[12], view[14], view[16])
    slope_y, held_y = _held(v / z, view[13], view[15], view[17])
    tilt_x, tilt_y = -zoom_x * slope_x, -zoom_y * slope_y
    for k in range(3):
        slopes[0, k] = zoom_x * view[k] + tilt_x * view[6 + k]
        slopes[1, k] = zoom_y * view[3 + k] + tilt_y * view[6 + k]
    for j in range(3):
        axes[0, j] = (slopes[0, 0] * turn[0, j] + slopes[0, 1] * turn[1, j] + slopes[0, 2] * turn[2, j]) * scales[j]
        axes[1, j] = (slopes[1, 0] * turn[0, j] + slopes[1, 1] * turn[1, j] + slopes[1, 2] * turn[2, j]) * scales[j]
    return slope_x, slope_y, held_x, held_y


@compiled
def _direction(u, v, z, view, seen):
    """Fills `seen` (3,), the unit direction in the world; returns the distance."""
    distance = math.sqrt(u * u + v * v + z * z)
    for k in range(3):
        seen[k] = (view[k] * u + view[3 + k] * v + view[6 + k] * z) / distance
    return distance


@compiled
def _linear(display, gamma, shift, knee):
    """Light of a display value, and its slope: `optics.to_linear`."""
    if gamma == 1.0:
        return display, 1.0
    if display <= knee:
        steep = ((knee + shift) / (1 + shift)) ** gamma / knee
        return display * steep, steep
    base = (display + shift) / (1 + shift)
    light = math.exp(gamma * math.log(base))
    return light, gamma * light / (base * (1 + shift))


@compiled
def _sigmoid(logit):
    return 1 / (1 + math.exp(-logit))


@compiled
def project_gaussians(first, last, means, log_scales, rotations, logits, harmonics, view, style, table, reach, depth):  # noqa: PLR0913, PLR0917
    """Fill rows [first, last) of `table` (N, 10), `reach` and `depth` (N,)."""
    turn, slopes, axes = np.empty((3, 3)), np.empty((2, 3)), np.empty((2, 3))
    scales, seen, harmonic = np.empty(3), np.empty(3), np.empty(16)
    kinds = int(style[3])
    for i in range(first, last):
        reach[i] = 0.0
        for k in range(10):
            table[i, k] = 0.0
        u, v, z, right, down = _local(i, means, view)
        depth[i] = z
        solid = _sigmoid(float(logits[i]))
        if not (z > style[2] and solid > FAINTEST):
            continue
        column = view[14] + view[12] * (right * view[19] + u / z)
        row = view[15] + view[13] * (down * view[19] + v / z)
        for k in range(3):
            scales[k] = math.exp(log_scales[i, k])
        _rotation(i, rotations, turn)
        _axes(u, v, z, view, scales, turn, slopes, axes)
        xx = axes[0, 0] ** 2 + axes[0, 1] ** 2 + axes[0, 2] ** 2
        xy = axes[0, 0] * axes[1, 0] + axes[0, 1] * axes[1, 1] + axes[0, 2] * axes[1, 2]
        yy = axes[1, 0] ** 2 + axes[1, 1] ** 2 + axes[1, 2] ** 2
        radius = style[0] * view[18] * (view[19] - 1 / z)
        grown = LOW_PASS + radius * radius / 4
        flat = max(xx * yy - xy * xy, 0.0)
        det = flat + grown * (xx + yy) + grown * grown
        kept = max(flat + style[1] * (xx + yy) + style[1] * style[1], 1e-30)
        opacity = solid * math.sqrt(kept / det)
        lost = min(FAINTEST / max(opacity, 1e-30), max(FAINTEST / solid, LOST))
        ends = -2 * math.log(min(lost, 1.0))
        half_x, half_y = math.sqrt(ends * (xx + grown)), math.sqrt(ends * (yy + grown))
        if not (column + half_x > 0 and column - half_x < view[16] and row + half_y > 0 and row - half_y < view[17]):
            continue
        if not (ends > 0 and math.isfinite(det) and det < 1e37):
            continue
        _direction(u, v, z, view, seen)
        basis(seen, kinds, harmonic)
        for c in range(3):
            shown = 0.5
            for k in range(kinds):
                shown += harmonic[k] * harmonics[i, k, c]
            table[i, 6 + c], _ = _linear(max(shown, 0.0), style[4], style[5], style[6])
        table[i, 0], table[i, 1] = column, row
        table[i, 2], table[i, 3], table[i, 4] = (yy + grown) / det, -xy / det, (xx + grown) / det
        table[i, 5] = opacity
        table[i, 9] = 1 / z
        reach[i] = ends


@compiled
def pull_back(  # noqa: PLR0913, PLR0917
    first, last, means, log_scales, rotations, logits, harmonics, view, style, reach, pull,
    g_means, g_scales, g_rotations, g_logits, g_harmonics, g_lens,
):  # fmt: skip
    """From `pull` (N, 10), the gradient of the table, those of Gaussians [first, last), which start at 0, and of the lens.

    `g_lens` (N, 2) is each Gaussian's part in the gradient of aperture and focus disparity.
    """
    turn, slopes, axes = np.empty((3, 3)), np.empty((2, 3)), np.empty((2, 3))
    g_axes, g_slopes, g_turn = np.empty((2, 3)), np.empty((2, 3)), np.empty((3, 3))
    scales, seen, harmonic, g_seen, g_harmonic = np.empty(3), np.empty(3), np.empty(16), np.empty(3), np.empty(16)
    kinds = int(style[3])
    fx, fy, aperture, focus = view[12], view[13], view[18], view[19]
    for i in range(first, last):
        if reach[i] <= 0:
            continue
        u, v, z, right, down = _local(i, means, view)
        for k in range(3):
            scales[k] = math.exp(log_scales[i, k])
        qw, qx, qy, qz, length = _rotation(i, rotations, turn)
        slope_x, slope_y, held_x, held_y = _axes(u, v, z, view, scales, turn, slopes, axes)
        xx = axes[0, 0] ** 2 + axes[0, 1] ** 2 + axes[0, 2] ** 2
        xy = axes[0, 0] * axes[1, 0] + axes[0, 1] * axes[1, 1] + axes[0, 2] * axes[1, 2]
        yy = axes[1, 0] ** 2 + axes[1, 1] ** 2 + axes[1, 2] ** 2
        radius = style[0] * aperture * (focus - 1 / z)
        grown = LOW_PASS + radius * radius / 4
        flat = max(xx * yy - xy * xy, 0.0)
        det = flat + grown * (xx + yy) + grown * grown
        kept = flat + style[1] * (xx + yy) + style[1] * style[1]

        # Conic K = Σ'⁻¹, so dΣ' = −K dK K. The table holds K's off-diagonal once.
        a, b, c = (yy + grown) / det, -xy / det, (xx + grown) / det
        ga, gb, gc = float(pull[i, 2]), float(pull[i, 3]) / 2, float(pull[i, 4])
        ma, mb, mc, md = ga * a + gb * b, ga * b + gb * c, gb * a + gc * b, gb * b + gc * c
        g_xx, g_xy, g_yy = -(a * ma + b * mc), -2 * (a * mb + b * md), -(b * mb + c * md)
        # Opacity = sigmoid · sqrt(kept / det).
        solid = _sigmoid(float(logits[i]))
        light = float(pull[i, 5]) * solid * math.sqrt(max(kept, 1e-30) / det)
        g_logits[i] = light * (1 - solid)
        g_det = -light / (2 * det)
        g_xx += g_det * (yy + grown)
        g_yy += g_det * (xx + grown)
        g_xy -= g_det * 2 * xy
        g_radius = (g_xx + g_yy) * radius / 2
        if kept > 1e-30:
            g_kept = light / (2 * kept)
            g_xx += g_kept * (yy + style[1])
            g_yy += g_kept * (xx + style[1])
            g_xy -= g_kept * 2 * xy
        g_radius *= style[0]

        # T Tᵀ → T → M and J.
        for j in range(3):
            g_axes[0, j] = 2 * g_xx * axes[0, j] + g_xy * axes[1, j]
            g_axes[1, j] = 2 * g_yy * axes[1, j] + g_xy * axes[0, j]
            g_scales[i, j] = g_axes[0, j] * axes[0, j] + g_axes[1, j] * axes[1, j]
            g_axes[0, j] *= scales[j]
            g_axes[1, j] *= scales[j]
        for k in range(3):
            g_slopes[0, k] = g_axes[0, 0] * turn[k, 0] + g_axes[0, 1] * turn[k, 1] + g_axes[0, 2] * turn[k, 2]
            g_slopes[1, k] = g_axes[1, 0] * turn[k, 0] + g_axes[1, 1] * turn[k, 1] + g_axes[1, 2] * turn[k, 2]
            for j in range(3):
                g_turn[k, j] = slopes[0, k] * g_axes[0, j] + slopes[1, k] * g_axes[1, j]
        g_zoom_x = g_slopes[0, 0] * view[0] + g_slopes[0, 1] * view[1] + g_slopes[0, 2] * view[2]
        g_zoom_y = g_slopes[1, 0] * view[3] + g_slopes[1, 1] * view[4] + g_slopes[1, 2] * view[5]
        g_tilt_x = g_slopes[0, 0] * view[6] + g_slopes[0, 1] * view[7] + g_slopes[0, 2] * view[8]
        g_tilt_y = g_slopes[1, 0] * view[6] + g_slopes[1, 1] * view[7] + g_slopes[1, 2] * view[8]
        g_zoom_x -= g_tilt_x * slope_x
        g_zoom_y -= g_tilt_y * slope_y
        g_slope_x = fx * pull[i, 0] - (0.0 if held_x else g_tilt_x * fx / z)
        g_slope_y = fy * pull[i, 1] - (0.0 if held_y else g_tilt_y * fy / z)
        g_u, g_v = g_slope_x / z, g_slope_y / z
        g_disparity = float(pull[i, 9]) - g_radius * aperture
        g_z = -(g_slope_x * u + g_slope_y * v + g_zoom_x * fx + g_zoom_y * fy + g_disparity) / (z * z)

        _turn_back(i, qw, qx, qy, qz, length, g_turn, g_rotations)

        distance = _direction(u, v, z, view, seen)
        basis(seen, kinds, harmonic)
        for k in range(kinds):
            g_harmonic[k] = 0.0
        for ch in range(3):
            shown = 0.5
            for k in range(kinds):
                shown += harmonic[k] * harmonics[i, k, ch]
            if shown > 0:
                _, steep = _linear(shown, style[4], style[5], style[6])
                g = steep * pull[i, 6 + ch]
                for k in range(kinds):
                    g_harmonics[i, k, ch] = g * harmonic[k]
                    g_harmonic[k] += g * harmonics[i, k, ch]
        if kinds > 1:
            basis_gradient(seen, kinds, g_harmonic, g_seen)
            along = g_seen[0] * seen[0] + g_seen[1] * seen[1] + g_seen[2] * seen[2]
            x, y = (g_seen[0] - along * seen[0]) / distance, (g_seen[1] - along * seen[1]) / distance
            w = (g_seen[2] - along * seen[2]) / distance
            g_u += view[0] * x + view[1] * y + view[2] * w
            g_v += view[3] * x + view[4] * y + view[5] * w
            g_z += view[6] * x + view[7] * y + view[8] * w

        for k in range(3):
            g_means[i, k] = view[k] * g_u + view[3 + k] * g_v + view[6 + k] * g_z
        g_right, g_down = fx * focus * pull[i, 0] - g_u, fy * focus * pull[i, 1] - g_v
        g_lens[i, 0] = g_radius * (focus - 1 / z) + g_right * view[20] / fx - g_down * view[21] / fy
        g_lens[i, 1] = g_radius * aperture + fx * right * pull[i, 0] + fy * down * pull[i, 1]


@compiled
def _turn_back(i, w, x, y, z, length, g, g_rotations):
    """From the gradient of the rotation matrix that of the quaternion, which need not have had unit length."""
    g_w = 2 * (x * (g[2, 1] - g[1, 2]) + y * (g[0, 2] - g[2, 0]) + z * (g[1, 0] - g[0, 1]))
    g_x = 2 * (y * (g[0, 1] + g[1, 0]) + z * (g[0, 2] + g[2, 0]) + w * (g[2, 1] - g[1, 2]) - 2 * x * (g[1, 1] + g[2, 2]))
    g_y = 2 * (x * (g[0, 1] + g[1, 0]) + z * (g[1, 2] + g[2, 1]) + w * (g[0, 2] - g[2, 0]) - 2 * y * (g[0, 0] + g[2, 2]))
    g_z = 2 * (x * (g[0, 2] + g[2, 0]) + y * (g[1, 2] + g[2, 1]) + w * (g[1, 0] - g[0, 1]) - 2 * z * (g[0, 0] + g[1, 1]))
    along = g_w * w + g_x * x + g_y * y + g_z * z
    g_rotations[i, 0] = (g_w - along * w) / length
    g_rotations[i, 1] = (g_x - along * x) / length
    g_rotations[i, 2] = (g_y - along * y) / length
    g_rotations[i, 3] = (g_z - along * z) / length
