"""Projection of Gaussians to the screen in numba, with its gradient: the CPU version of `reference.project`.

Eight Gaussians at a time, as vectors of float32 (lanes.py); only their places in camera coordinates are found in
float64, since a scene may lie far from the origin. Exponentials and the light curve are PyTorch's, of all Gaussians at
once. With W the world-to-camera rotation (x right, y down, z ahead), J the Jacobian of the perspective at the mean and
M the Gaussian's scaled axes, the screen covariance is T Tᵀ, T = J W M. The backward pass recomputes T: cheaper than to
store it. Small matrices are tuples, row by row, so that they stay in registers.

`place` (12,) float64 is W row by row and the camera's position. `view` (27,) float32 holds W (0 to 8), fx, fy, cx, cy
(9 to 12), aperture and focus disparity (13, 14), the least and the greatest slope at which J is evaluated, of columns
and of rows (15 to 18), the radius of the sub-aperture, the part of the low-pass that does not reduce opacity (19, 20),
the light curve's gamma, shift and knee (21 to 23), near, width and height (24 to 26). `sizes` (N, 3) are standard
deviations, `solids` (N,) the opacities of the sharp Gaussians, `kinds` is the number of harmonics. g_x is the gradient
of x.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dofnerf.camera import Camera
from dofnerf.models.splat.gaussians import FAINTEST, LARGEST, LOST, LOW_PASS, MARGIN, Gaussians, Projected, Style
from dofnerf.models.splat.raster.lanes import (
    COUNT,
    absolute,
    choose,
    greatest,
    keep,
    least,
    load,
    logarithm,
    root,
    spread,
    store,
)
from dofnerf.models.splat.raster.reference import C0, C1, C2, C3
from dofnerf.optics.kernels import compiled, run_jobs
from dofnerf.optics.light import curve_pieces, to_linear

_BLOCKS = 32  # of eight Gaussians in a job, at the least
_GIVEN = 11  # numbers that are read of a Gaussian: place in camera coordinates, sizes, quaternion, opacity


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
        means, log_scales, rotations, logits, harmonics = (tensor.detach().contiguous() for tensor in gaussians)
        arrays = [tensor.numpy() for tensor in (means, log_scales.exp(), rotations, logits.sigmoid(), harmonics)]
        count, kinds = len(means), min(harmonics.shape[1], (style.degree + 1) ** 2)
        to_camera = camera.camera_to_world[:, :3].T * [[1], [-1], [-1]]  # x right, y down, z ahead
        place = np.array([*to_camera.reshape(-1), *camera.position], dtype=np.float64)
        bounds = *_slopes_seen(camera.fx, camera.cx, camera.width), *_slopes_seen(camera.fy, camera.cy, camera.height)
        numbers = (camera.fx, camera.fy, camera.cx, camera.cy, float(aperture), float(focus), *bounds)
        kept = 0.0 if style.antialiased else LOW_PASS
        options = (radius, kept, *curve_pieces(style.light), style.near, camera.width, camera.height)
        view = np.array([*to_camera.reshape(-1), *numbers, *options], dtype=np.float32)
        out = torch.empty(count, 10), torch.empty(count), torch.empty(count)
        given = (*arrays, kinds, place, view)
        run_jobs(_project_forward, -(-count // COUNT), (*given, *(tensor.numpy() for tensor in out)), least=_BLOCKS)
        out[0][:, 6:9] = to_linear(out[0][:, 6:9].clamp(min=0), style.light)
        ctx.given = (*given, out[0].numpy(), out[1].numpy())
        ctx.mark_non_differentiable(out[1], out[2])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        out = [torch.zeros(array.shape) for array in ctx.given[:5]]
        lens = torch.zeros(len(out[0]), 2)
        arrays = [tensor.numpy() for tensor in (grads[0].contiguous(), *out, lens)]
        run_jobs(_project_backward, -(-len(lens) // COUNT), (*ctx.given, *arrays), least=_BLOCKS)
        both = lens.sum(0, dtype=torch.float64).float()
        return None, both[0], both[1], *out


def _slopes_seen(focal: float, centre: float, size: int) -> tuple[float, float]:
    """The least and the greatest slope of what is in the picture, or within a margin around it."""
    low, high = -centre / focal, (size - centre) / focal
    margin = MARGIN * (high - low) / 2
    return low - margin, high + margin


@compiled
def _gather(i, means, sizes, rotations, solids, place, given):
    """Fill `given` (_GIVEN · 8) with what is known of Gaussians i … i + 7, one number of all of them after the other;
    the last Gaussian stands for those that there are not."""
    for lane in range(COUNT):
        n = min(i + lane, means.shape[0] - 1)
        x, y, z = means[n, 0] - place[9], means[n, 1] - place[10], means[n, 2] - place[11]
        for k in range(3):
            given[k * COUNT + lane] = place[3 * k] * x + place[3 * k + 1] * y + place[3 * k + 2] * z
            given[(3 + k) * COUNT + lane] = sizes[n, k]
        for k in range(4):
            given[(6 + k) * COUNT + lane] = rotations[n, k]
        given[10 * COUNT + lane] = solids[n]


@compiled
def _scatter(i, rows, count, found, out):
    """Write `found` (count · 8), numbers of Gaussians i … i + rows − 1, to their rows of out (N, count)."""
    for lane in range(rows):
        for k in range(count):
            out[i + lane, k] = found[k * COUNT + lane]


@compiled
def _number(given, k):
    """The k-th number of eight Gaussians."""
    return load(given, k * COUNT)


@compiled
def _unit_quaternion(given):
    """(w, x, y, z), and one over the original length."""
    w, x, y, z = _number(given, 6), _number(given, 7), _number(given, 8), _number(given, 9)
    n = 1.0 / greatest(root(w * w + x * x + y * y + z * z), 1e-12)
    return w * n, x * n, y * n, z * n, n


@compiled
def _rotation(w, x, y, z):
    """The rotation matrix."""
    return (
        1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y),
        2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x),
        2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y),
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
def _cross(t):
    """The cross product of T's rows. Its square is the determinant of T Tᵀ, without the cancellation."""
    return t[1] * t[5] - t[2] * t[4], t[2] * t[3] - t[0] * t[5], t[0] * t[4] - t[1] * t[3]


@compiled
def _direction(u, v, z, view):
    """The unit vector from the camera in world axes, and one over the distance."""
    n = 1.0 / root(u * u + v * v + z * z)
    return (
        (view[0] * u + view[3] * v + view[6] * z) * n,
        (view[1] * u + view[4] * v + view[7] * z) * n,
        (view[2] * u + view[5] * v + view[8] * z) * n,
        n,
    )


@compiled
def _linear_slopes(display, light, view):
    """Derivative of `optics.to_linear` at `display`, given its value."""
    gamma, shift, knee = view[21], view[22], view[23]
    straight = display <= (np.float32(np.inf) if gamma == np.float32(1) else knee)
    slope = choose(straight, light / display, gamma * light / (display + shift))
    return keep(display > 0, slope)


@compiled
def _project_forward(  # noqa: PLR0913, PLR0917
    first, last, means, sizes, rotations, solids, harmonics, kinds, place, view, table, reach, depth
):
    """Fill blocks [first, last) of eight rows of `table` (N, 10), with colours in display values, `reach` and `depth`
    (N,)."""
    given, found, ends_of = (
        np.empty(_GIVEN * COUNT, np.float32),
        np.empty(10 * COUNT, np.float32),
        np.empty(COUNT, np.float32),
    )
    harmonic = np.empty(16 * COUNT, np.float32)
    for block in range(first, last):
        i = block * COUNT
        rows = min(COUNT, means.shape[0] - i)
        _gather(i, means, sizes, rotations, solids, place, given)
        u, v, z, solid = _number(given, 0), _number(given, 1), _number(given, 2), _number(given, 10)
        near = 1.0 / z
        slope_x = least(greatest(u * near, view[15]), view[16])
        slope_y = least(greatest(v * near, view[17]), view[18])
        zoom_x, zoom_y = near * view[9], near * view[10]
        column, row = zoom_x * u + view[11], zoom_y * v + view[12]
        w, x, y, q, _ = _unit_quaternion(given)
        scales = _number(given, 3), _number(given, 4), _number(given, 5)
        j = _slopes(zoom_x, 0.0 - zoom_x * slope_x, zoom_y, 0.0 - zoom_y * slope_y, view)
        t = _axes(j, _rotation(w, x, y, q), scales)
        xx, xy, yy = _covariance(t)
        blur = view[13] * (view[14] - near)
        radius = view[19] * blur
        grown = radius * radius * 0.25 + LOW_PASS
        n = _cross(t)
        flat, trace, kept = n[0] * n[0] + n[1] * n[1] + n[2] * n[2], xx + yy, view[20]
        det = flat + grown * trace + grown * grown
        opacity = solid * root(greatest(flat + kept * trace + kept * kept, 1e-30) / det)
        lost = least(FAINTEST / greatest(opacity, 1e-30), greatest(FAINTEST / solid, LOST))
        ends = -2.0 * logarithm(least(lost, 1.0))
        half_x, half_y = root(ends * (xx + grown)) + absolute(blur), root(ends * (yy + grown)) + absolute(blur)
        drawn = (z > view[24]) & (solid > FAINTEST) & (ends > 0.0) & (det < LARGEST)
        drawn = drawn & (column + half_x > 0.0) & (column - half_x < view[25])
        drawn = drawn & (row + half_y > 0.0) & (row - half_y < view[26])
        over = 1.0 / det
        store(found, 0, keep(drawn, column))
        store(found, COUNT, keep(drawn, row))
        store(found, 2 * COUNT, keep(drawn, (yy + grown) * over))
        store(found, 3 * COUNT, keep(drawn, 0.0 - xy * over))
        store(found, 4 * COUNT, keep(drawn, (xx + grown) * over))
        store(found, 5 * COUNT, keep(drawn, opacity))
        store(found, 9 * COUNT, keep(drawn, near))
        store(ends_of, 0, keep(drawn, ends))
        d = _direction(u, v, z, view)
        _basis(d[0], d[1], d[2], kinds, harmonic)
        _colours(i, rows, kinds, harmonic, harmonics, found)
        for lane in range(rows):
            reach[i + lane], depth[i + lane] = ends_of[lane], given[2 * COUNT + lane]
        for lane in range(rows):
            if ends_of[lane] <= 0:
                for k in range(6, 9):
                    found[k * COUNT + lane] = 0
        _scatter(i, rows, 10, found, table)


@compiled
def _project_backward(  # noqa: PLR0913, PLR0917
    first, last, means, sizes, rotations, solids, harmonics, kinds, place, view, table, reach, g_table,
    g_means, g_scales, g_rotations, g_logits, g_harmonics, g_lens,
):  # fmt: skip
    """Gradients of blocks [first, last) of eight Gaussians, initially 0, from `g_table` (N, 10), that of the table.

    `g_lens` (N, 2) is each Gaussian's part of the gradients of aperture and focus disparity.
    """
    given, grads = np.empty(_GIVEN * COUNT, np.float32), np.empty(10 * COUNT, np.float32)
    known, colours = np.empty(2 * COUNT, np.float32), np.empty(10 * COUNT, np.float32)
    harmonic, g_harmonic = np.empty(16 * COUNT, np.float32), np.empty(16 * COUNT, np.float32)
    found = np.empty(13 * COUNT, np.float32)
    light_of = np.empty(3 * COUNT, np.float32)
    fx, fy, aperture, focus, kept_pass = view[9], view[10], view[13], view[14], view[20]
    for block in range(first, last):
        i = block * COUNT
        rows = min(COUNT, means.shape[0] - i)
        some = False
        for lane in range(COUNT):
            n = min(i + lane, means.shape[0] - 1)
            shown = reach[n] > 0 and lane < rows
            some |= shown
            known[lane], known[COUNT + lane] = np.float32(shown), table[n, 5]
            for k in range(10):
                grads[k * COUNT + lane] = g_table[n, k] if shown else np.float32(0)
            for k in range(3):
                light_of[k * COUNT + lane] = table[n, 6 + k]
        if not some:
            continue
        _gather(i, means, sizes, rotations, solids, place, given)
        shown, opacity = load(known, 0) > 0.5, load(known, COUNT)
        u, v, z, solid = _number(given, 0), _number(given, 1), _number(given, 2), _number(given, 10)
        near = 1.0 / z
        slope_x, slope_y = u * near, v * near
        open_x, open_y = (slope_x >= view[15]) & (slope_x <= view[16]), (slope_y >= view[17]) & (slope_y <= view[18])
        slope_x = least(greatest(slope_x, view[15]), view[16])
        slope_y = least(greatest(slope_y, view[17]), view[18])
        zoom_x, zoom_y = near * fx, near * fy
        qw, qx, qy, qz, over_length = _unit_quaternion(given)
        scales = _number(given, 3), _number(given, 4), _number(given, 5)
        j = _slopes(zoom_x, 0.0 - zoom_x * slope_x, zoom_y, 0.0 - zoom_y * slope_y, view)
        r = _rotation(qw, qx, qy, qz)
        t = _axes(j, r, scales)
        xx, xy, yy = _covariance(t)
        radius = view[19] * aperture * (focus - near)
        grown = radius * radius * 0.25 + LOW_PASS
        n = _cross(t)
        flat, trace = n[0] * n[0] + n[1] * n[1] + n[2] * n[2], xx + yy
        over = 1.0 / (flat + grown * trace + grown * grown)
        kept = flat + kept_pass * trace + kept_pass * kept_pass

        # Conic K = Σ'⁻¹, so dΣ' = −K dK K. The table holds K's off-diagonal once.
        a, b, c = (yy + grown) * over, 0.0 - xy * over, (xx + grown) * over
        ga, gb, gc = _number(grads, 2), _number(grads, 3) * 0.5, _number(grads, 4)
        g_trace = 0.0 - (a * (ga * a + gb * b) + b * (gb * a + gc * b) + b * (ga * b + gb * c) + c * (gb * b + gc * c))
        # Opacity = sigmoid · sqrt(kept / det).
        light = _number(grads, 5) * opacity
        store(found, 10 * COUNT, light * (1.0 - solid))
        g_det = light * over * -0.5
        g_radius = view[19] * (g_trace + g_det * (trace + 2.0 * grown)) * radius * 0.5
        # By det and kept together, whose parts nearly cancel where there is little blur: their difference first.
        both = light * over * (radius * radius * 0.25 + (LOW_PASS - kept_pass)) / greatest(kept, 1e-30)
        g_trace = choose(kept > 1e-30, both * (kept_pass * grown - flat), 2.0 * g_det * grown)
        g_flat = choose(kept > 1e-30, both * (trace + grown + kept_pass), 2.0 * g_det)

        # Σ' and det T Tᵀ → T → M and J; g is the gradient of T times the scales, so of J W R.
        conic, g_conic, weights = (a, b, c), (ga, gb, gc), (over, grown * over, g_trace, g_flat)
        p0, p3 = _axis(t[0], t[3], t[4] * n[2] - t[5] * n[1], n[1] * t[2] - n[2] * t[1], conic, g_conic, weights)
        p1, p4 = _axis(t[1], t[4], t[5] * n[0] - t[3] * n[2], n[2] * t[0] - n[0] * t[2], conic, g_conic, weights)
        p2, p5 = _axis(t[2], t[5], t[3] * n[1] - t[4] * n[0], n[0] * t[1] - n[1] * t[0], conic, g_conic, weights)
        store(found, 3 * COUNT, p0 * t[0] + p3 * t[3])
        store(found, 4 * COUNT, p1 * t[1] + p4 * t[4])
        store(found, 5 * COUNT, p2 * t[2] + p5 * t[5])
        g = p0 * scales[0], p1 * scales[1], p2 * scales[2], p3 * scales[0], p4 * scales[1], p5 * scales[2]
        _rotation_gradient((qw, qx, qy, qz, over_length), t, (p0, p1, p2, p3, p4, p5), scales, found)
        gx0, gx1, gx2 = _row_times(g[0], g[1], g[2], r)
        gy0, gy1, gy2 = _row_times(g[3], g[4], g[5], r)
        g_tilt_x = gx0 * view[6] + gx1 * view[7] + gx2 * view[8]
        g_tilt_y = gy0 * view[6] + gy1 * view[7] + gy2 * view[8]
        g_zoom_x = gx0 * view[0] + gx1 * view[1] + gx2 * view[2] - g_tilt_x * slope_x
        g_zoom_y = gy0 * view[3] + gy1 * view[4] + gy2 * view[5] - g_tilt_y * slope_y
        g_slope_x = fx * _number(grads, 0) - keep(open_x, g_tilt_x * zoom_x)
        g_slope_y = fy * _number(grads, 1) - keep(open_y, g_tilt_y * zoom_y)
        g_u, g_v = g_slope_x * near, g_slope_y * near
        g_disparity = _number(grads, 9) - g_radius * aperture
        g_z = 0.0 - (g_slope_x * u + g_slope_y * v + g_zoom_x * fx + g_zoom_y * fy + g_disparity) * near * near

        sx, sy, sz, over_distance = _direction(u, v, z, view)
        _basis(sx, sy, sz, kinds, harmonic)
        _colours(i, rows, kinds, harmonic, harmonics, colours)
        for k in range(6, 9):
            slope = _linear_slopes(_number(colours, k), load(light_of, (k - 6) * COUNT), view)
            store(grads, k * COUNT, keep(shown, _number(grads, k) * slope))
        _colour_gradients(i, kinds, harmonic, harmonics, grads, known, g_harmonic, g_harmonics)
        if kinds > 1:
            g_sx, g_sy, g_sz = _basis_gradient(sx, sy, sz, kinds, g_harmonic)
            along = g_sx * sx + g_sy * sy + g_sz * sz
            x, y = (g_sx - along * sx) * over_distance, (g_sy - along * sy) * over_distance
            w = (g_sz - along * sz) * over_distance
            g_u = g_u + view[0] * x + view[1] * y + view[2] * w
            g_v = g_v + view[3] * x + view[4] * y + view[5] * w
            g_z = g_z + view[6] * x + view[7] * y + view[8] * w

        for k in range(3):
            store(found, k * COUNT, view[k] * g_u + view[3 + k] * g_v + view[6 + k] * g_z)
        store(found, 11 * COUNT, g_radius * (focus - near))
        store(found, 12 * COUNT, g_radius * aperture)
        for lane in range(rows):
            if known[lane] > 0:
                for k in range(3):
                    g_means[i + lane, k] = found[k * COUNT + lane]
                    g_scales[i + lane, k] = found[(3 + k) * COUNT + lane]
                for k in range(4):
                    g_rotations[i + lane, k] = found[(6 + k) * COUNT + lane]
                g_logits[i + lane] = found[10 * COUNT + lane]
                g_lens[i + lane, 0], g_lens[i + lane, 1] = found[11 * COUNT + lane], found[12 * COUNT + lane]


@compiled
def _axis(x, y, over_x, over_y, conic, g_conic, weights):
    """Gradient of a column (x, y) of T. (over_x, over_y) is half that of the determinant of T Tᵀ; so the column times
    the conic is found without cancellation, also for a needle."""
    over, grown, g_trace, g_flat = weights
    u, v = grown * x + over * over_x, grown * y + over * over_y
    u, v = g_conic[0] * u + g_conic[1] * v, g_conic[1] * u + g_conic[2] * v
    g_x = g_trace * x + g_flat * over_x - 2.0 * (conic[0] * u + conic[1] * v)
    return g_x, g_trace * y + g_flat * over_y - 2.0 * (conic[1] * u + conic[2] * v)


@compiled
def _row_times(g0, g1, g2, r):
    """A row of the gradient of J W R → that row of J W's."""
    return g0 * r[0] + g1 * r[1] + g2 * r[2], g0 * r[3] + g1 * r[4] + g2 * r[5], g0 * r[6] + g1 * r[7] + g2 * r[8]


@compiled
def _rotation_gradient(quaternion, t, p, scales, found):
    """From the gradient `p` of T that of the quaternion, before it was normalised → numbers 6 to 9 of `found`.

    It is 2 q (0, v), with v the gradient of a small turn about the Gaussian's own axes. A turn mixes two columns of T /
    scales; since p is a symmetric matrix times T, v has the difference of their squared scales as a factor. Written so,
    a round Gaussian has the gradient 0, and not its rounding, of which Adam would make a step.
    """
    w, x, y, z, over_length = quaternion
    s0, s1, s2 = greatest(scales[0], 1e-18), greatest(scales[1], 1e-18), greatest(scales[2], 1e-18)
    over = 1.0 / (s1 * s2), 1.0 / (s2 * s0), 1.0 / (s0 * s1)
    v0 = (s1 - s2) * (s1 + s2) * over[0] * 0.5 * (t[1] * p[2] + t[4] * p[5] + t[2] * p[1] + t[5] * p[4])
    v1 = (s2 - s0) * (s2 + s0) * over[1] * 0.5 * (t[2] * p[0] + t[5] * p[3] + t[0] * p[2] + t[3] * p[5])
    v2 = (s0 - s1) * (s0 + s1) * over[2] * 0.5 * (t[0] * p[1] + t[3] * p[4] + t[1] * p[0] + t[4] * p[3])
    twice = 2.0 * over_length
    store(found, 6 * COUNT, (0.0 - (x * v0 + y * v1 + z * v2)) * twice)
    store(found, 7 * COUNT, (w * v0 + y * v2 - z * v1) * twice)
    store(found, 8 * COUNT, (w * v1 + z * v0 - x * v2) * twice)
    store(found, 9 * COUNT, (w * v2 + x * v1 - y * v0) * twice)


@compiled
def _basis(x, y, z, count, out):
    """Fill out (16 · 8) with the first `count` of `reference.basis` of unit directions."""
    store(out, 0, spread(np.float32(C0)))
    if count == 1:
        return
    store(out, COUNT, -C1 * y)
    store(out, 2 * COUNT, C1 * z)
    store(out, 3 * COUNT, -C1 * x)
    if count == 4:
        return
    xx, yy, zz = x * x, y * y, z * z
    store(out, 4 * COUNT, C2[0] * x * y)
    store(out, 5 * COUNT, C2[1] * y * z)
    store(out, 6 * COUNT, C2[2] * (2.0 * zz - xx - yy))
    store(out, 7 * COUNT, C2[3] * x * z)
    store(out, 8 * COUNT, C2[4] * (xx - yy))
    if count == 9:
        return
    store(out, 9 * COUNT, C3[0] * y * (3.0 * xx - yy))
    store(out, 10 * COUNT, C3[1] * x * y * z)
    store(out, 11 * COUNT, C3[2] * y * (4.0 * zz - xx - yy))
    store(out, 12 * COUNT, C3[3] * z * (2.0 * zz - 3.0 * xx - 3.0 * yy))
    store(out, 13 * COUNT, C3[4] * x * (4.0 * zz - xx - yy))
    store(out, 14 * COUNT, C3[5] * z * (xx - yy))
    store(out, 15 * COUNT, C3[6] * x * (xx - 3.0 * yy))


@compiled
def _basis_gradient(x, y, z, count, g):
    """The gradient of the direction from `g` (16 · 8), that of the harmonics."""
    gx, gy, gz = -C1 * _number(g, 3), -C1 * _number(g, 1), C1 * _number(g, 2)
    if count > 4:
        a, b, c = C2[0] * _number(g, 4), C2[1] * _number(g, 5), C2[2] * _number(g, 6)
        d, e = C2[3] * _number(g, 7), C2[4] * _number(g, 8)
        gx = gx + a * y - 2.0 * c * x + d * z + 2.0 * e * x
        gy = gy + a * x + b * z - 2.0 * c * y - 2.0 * e * y
        gz = gz + b * y + 4.0 * c * z + d * x
    if count > 9:
        xx, yy, zz = x * x, y * y, z * z
        a, b, c, d = C3[0] * _number(g, 9), C3[1] * _number(g, 10), C3[2] * _number(g, 11), C3[3] * _number(g, 12)
        e, f, h = C3[4] * _number(g, 13), C3[5] * _number(g, 14), C3[6] * _number(g, 15)
        gx = gx + 6.0 * a * x * y + b * y * z - 2.0 * c * x * y - 6.0 * d * x * z + e * (4.0 * zz - 3.0 * xx - yy)
        gx = gx + 2.0 * f * x * z + 3.0 * h * (xx - yy)
        gy = gy + 3.0 * a * (xx - yy) + b * x * z + c * (4.0 * zz - xx - 3.0 * yy) - 6.0 * d * y * z - 2.0 * e * x * y
        gy = gy - 2.0 * f * y * z - 6.0 * h * x * y
        gz = gz + b * x * y + 8.0 * c * y * z + d * (6.0 * zz - 3.0 * xx - 3.0 * yy) + 8.0 * e * x * z + f * (xx - yy)
    return gx, gy, gz


@compiled
def _colours(i, rows, kinds, harmonic, harmonics, found):
    """Fill numbers 6 to 8 of `found` with the colours of Gaussians i … i + rows − 1 in display values, before they are
    clamped at 0."""
    for k in range(6 * COUNT, 9 * COUNT):
        found[k] = np.float32(0.5)
    for lane in range(rows):
        red = green = blue = np.float32(0.5)
        for k in range(kinds):
            share = harmonic[k * COUNT + lane]
            red += share * harmonics[i + lane, k, 0]
            green += share * harmonics[i + lane, k, 1]
            blue += share * harmonics[i + lane, k, 2]
        found[6 * COUNT + lane], found[7 * COUNT + lane], found[8 * COUNT + lane] = red, green, blue


@compiled
def _colour_gradients(i, kinds, harmonic, harmonics, grads, known, g_harmonic, g_harmonics):
    """From the gradients of display colours, numbers 6 to 8 of `grads`, those of the coefficients, g_harmonics (N, …,
    3), and of the basis, g_harmonic (16 · 8), of the Gaussians that are `known` (8,) to be drawn."""
    for k in range(kinds * COUNT):
        g_harmonic[k] = np.float32(0)
    for lane in range(COUNT):
        if known[lane] <= 0:
            continue
        red, green, blue = grads[6 * COUNT + lane], grads[7 * COUNT + lane], grads[8 * COUNT + lane]
        for k in range(kinds):
            share, own, out = harmonic[k * COUNT + lane], harmonics[i + lane, k], g_harmonics[i + lane, k]
            out[0], out[1], out[2] = red * share, green * share, blue * share
            g_harmonic[k * COUNT + lane] = red * own[0] + green * own[1] + blue * own[2]
