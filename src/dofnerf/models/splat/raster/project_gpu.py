"""Projection of Gaussians to the screen in triton, with its gradient: the CUDA version of `reference.project`.

One Gaussian a lane, in float32. The symbols are those of project_cpu.py: T = J W M has the rows (t0, t1, t2) and (t3,
t4, t5), and the screen covariance is T Tᵀ. Its determinant is the square of the rows' cross product n, in value and
gradient: xx·yy − xy² would cancel for needles. `view` (26,) is W row by row, the camera's position, fx, fy, cx, cy,
width, height, the radius of the sub-aperture, the part of the low-pass that does not reduce opacity, near, the light
curve's gamma, shift and knee, aperture and focus disparity.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dofnerf.camera import Camera
from dofnerf.models.splat import gaussians as limits
from dofnerf.models.splat.gaussians import Gaussians, Projected, Style
from dofnerf.models.splat.raster import reference
from dofnerf.optics.light import curve_pieces
from dofnerf.optics.triton_kernels import check_tensor, on_device, tl, triton

BLOCK = 128  # Gaussians of a program

_LOW_PASS, _FAINTEST, _LOST = (tl.constexpr(x) for x in (limits.LOW_PASS, limits.FAINTEST, limits.LOST))
_LARGEST, _MARGIN = tl.constexpr(limits.LARGEST), tl.constexpr(limits.MARGIN)
_C0, _C1 = tl.constexpr(reference.C0), tl.constexpr(reference.C1)
_C20, _C21, _C22, _C23, _C24 = (tl.constexpr(c) for c in reference.C2)
_C30, _C31, _C32, _C33, _C34, _C35, _C36 = (tl.constexpr(c) for c in reference.C3)


def project(
    gaussians: Gaussians, camera: Camera, aperture: Tensor, focus_disparity: Tensor, radius: float, style: Style
) -> Projected:
    """As `raster.project`."""
    check_tensor(gaussians.means, project_forward)
    return Projected(*_Project.apply((camera, radius, style), aperture, focus_disparity, *gaussians))


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, shot: tuple[Camera, float, Style], aperture: Tensor, focus: Tensor, *gaussians: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        camera, radius, style = shot
        given = [tensor.detach().contiguous() for tensor in gaussians]
        count, rows = given[4].shape[:2]
        to_camera = camera.camera_to_world[:, :3].T * [[1], [-1], [-1]]  # x right, y down, z ahead
        size = (camera.fx, camera.fy, camera.cx, camera.cy, camera.width, camera.height)
        options = (radius, 0.0 if style.antialiased else limits.LOW_PASS, style.near, *curve_pieces(style.light))
        numbers = given[0].new_tensor([*to_camera.reshape(-1), *camera.position, *size, *options])
        view = torch.cat([numbers, torch.stack([aperture.detach(), focus.detach()])])
        table, reach, depth = (given[0].new_zeros(shape) for shape in ((count, 10), (count,), (count,)))
        ctx.sizes = count, rows, min(rows, (style.degree + 1) ** 2), style.light == 1, BLOCK
        ctx.save_for_backward(*given, view, table, reach)
        if count:
            with on_device(table):
                project_forward[(triton.cdiv(count, BLOCK),)](*given, view, table, reach, depth, *ctx.sizes)
        ctx.mark_non_differentiable(reach, depth)
        return table, reach, depth

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        out = [torch.zeros_like(tensor) for tensor in saved[:5]]
        lens = torch.zeros_like(out[0][:, :2])
        if len(lens):
            with on_device(lens):
                project_backward[(triton.cdiv(len(lens), BLOCK),)](
                    *saved, grads[0].contiguous(), *out, lens, *ctx.sizes
                )
        both = lens.sum(0, dtype=torch.float64).float()
        return None, both[0], both[1], *out


@triton.jit
def _clamped(slope, focal, centre, size):
    """The slope clamped to the picture and a margin around it."""
    low = -centre / focal
    high = (size - centre) / focal
    margin = _MARGIN * (high - low) / 2
    return tl.minimum(tl.maximum(slope, low - margin), high + margin)


@triton.jit
def _local(i, exists, means, view):
    """Places relative to the camera: right, down, ahead."""
    x = tl.load(means + 3 * i, mask=exists, other=0.0) - tl.load(view + 9)
    y = tl.load(means + 3 * i + 1, mask=exists, other=0.0) - tl.load(view + 10)
    z = tl.load(means + 3 * i + 2, mask=exists, other=0.0) - tl.load(view + 11)
    u = tl.load(view) * x + tl.load(view + 1) * y + tl.load(view + 2) * z
    v = tl.load(view + 3) * x + tl.load(view + 4) * y + tl.load(view + 5) * z
    return u, v, tl.load(view + 6) * x + tl.load(view + 7) * y + tl.load(view + 8) * z


@triton.jit
def _quaternion(i, exists, rotations):
    """(w, x, y, z) of length 1, and one over the original length."""
    w = tl.load(rotations + 4 * i, mask=exists, other=1.0)
    x = tl.load(rotations + 4 * i + 1, mask=exists, other=0.0)
    y = tl.load(rotations + 4 * i + 2, mask=exists, other=0.0)
    z = tl.load(rotations + 4 * i + 3, mask=exists, other=0.0)
    n = 1 / tl.maximum(tl.sqrt(w * w + x * x + y * y + z * z), 1e-12)
    return w * n, x * n, y * n, z * n, n


@triton.jit
def _rotation(w, x, y, z):
    """The rotation matrix, row by row."""
    return (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip


@triton.jit
def _sizes(i, exists, log_scales):
    at = log_scales + 3 * i
    s0, s1 = tl.exp(tl.load(at, mask=exists, other=0.0)), tl.exp(tl.load(at + 1, mask=exists, other=0.0))
    return s0, s1, tl.exp(tl.load(at + 2, mask=exists, other=0.0))


@triton.jit
def _turned(a, b, c, r0, r1, r2, r3, r4, r5, r6, r7, r8, s0, s1, s2):  # noqa: PLR0913, PLR0917
    """The row (a, b, c) of J W, times R S."""
    return (a * r0 + b * r3 + c * r6) * s0, (a * r1 + b * r4 + c * r7) * s1, (a * r2 + b * r5 + c * r8) * s2


@triton.jit
def _slopes(zoom_x, slope_x, zoom_y, slope_y, view):
    """J W, two rows of three."""
    w6, w7, w8 = tl.load(view + 6), tl.load(view + 7), tl.load(view + 8)
    return (
        zoom_x * (tl.load(view) - slope_x * w6),
        zoom_x * (tl.load(view + 1) - slope_x * w7),
        zoom_x * (tl.load(view + 2) - slope_x * w8),
        zoom_y * (tl.load(view + 3) - slope_y * w6),
        zoom_y * (tl.load(view + 4) - slope_y * w7),
        zoom_y * (tl.load(view + 5) - slope_y * w8),
    )


@triton.jit
def _cross(a0, a1, a2, b0, b1, b2):
    return a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0


@triton.jit
def _direction(u, v, z, view):
    """The unit vector from the camera in world axes, and one over the distance."""
    n = 1 / tl.sqrt(u * u + v * v + z * z)
    x = (tl.load(view) * u + tl.load(view + 3) * v + tl.load(view + 6) * z) * n
    y = (tl.load(view + 1) * u + tl.load(view + 4) * v + tl.load(view + 7) * z) * n
    return x, y, (tl.load(view + 2) * u + tl.load(view + 5) * v + tl.load(view + 8) * z) * n, n


@triton.jit
def _harmonic(k: tl.constexpr, x, y, z):
    """Real spherical harmonic k of a unit vector, and its derivatives by x, y and z."""
    o = x * 0.0
    if k == 0:
        r = o + _C0, o, o, o
    elif k == 1:
        r = -_C1 * y, o, o - _C1, o
    elif k == 2:
        r = _C1 * z, o, o, o + _C1
    elif k == 3:
        r = -_C1 * x, o - _C1, o, o
    elif k == 4:
        r = _C20 * x * y, _C20 * y, _C20 * x, o
    elif k == 5:
        r = _C21 * y * z, o, _C21 * z, _C21 * y
    elif k == 6:
        r = _C22 * (2 * z * z - x * x - y * y), -2 * _C22 * x, -2 * _C22 * y, 4 * _C22 * z
    elif k == 7:
        r = _C23 * x * z, _C23 * z, o, _C23 * x
    elif k == 8:
        r = _C24 * (x * x - y * y), 2 * _C24 * x, -2 * _C24 * y, o
    elif k == 9:
        r = _C30 * y * (3 * x * x - y * y), 6 * _C30 * x * y, 3 * _C30 * (x * x - y * y), o
    elif k == 10:
        r = _C31 * x * y * z, _C31 * y * z, _C31 * x * z, _C31 * x * y
    elif k == 11:
        inner = 4 * z * z - x * x - y * y
        r = _C32 * y * inner, -2 * _C32 * x * y, _C32 * (inner - 2 * y * y), 8 * _C32 * y * z
    elif k == 12:
        inner = 2 * z * z - 3 * x * x - 3 * y * y
        r = _C33 * z * inner, -6 * _C33 * x * z, -6 * _C33 * y * z, _C33 * (inner + 4 * z * z)
    elif k == 13:
        inner = 4 * z * z - x * x - y * y
        r = _C34 * x * inner, _C34 * (inner - 2 * x * x), -2 * _C34 * x * y, 8 * _C34 * x * z
    elif k == 14:
        r = _C35 * z * (x * x - y * y), 2 * _C35 * x * z, -2 * _C35 * y * z, _C35 * (x * x - y * y)
    else:
        r = _C36 * x * (x * x - 3 * y * y), 3 * _C36 * (x * x - y * y), -6 * _C36 * x * y, o
    return r


@triton.jit
def _colour(i, exists, x, y, z, harmonics, ROWS: tl.constexpr, KINDS: tl.constexpr):
    """In display values, before it is clamped at 0."""
    red, green, blue = x * 0.0 + 0.5, x * 0.0 + 0.5, x * 0.0 + 0.5
    for k in tl.static_range(KINDS):
        value = _harmonic(k, x, y, z)[0]
        place = harmonics + 3 * (i * ROWS + k)
        red += value * tl.load(place, mask=exists, other=0.0)
        green += value * tl.load(place + 1, mask=exists, other=0.0)
        blue += value * tl.load(place + 2, mask=exists, other=0.0)
    return red, green, blue


@triton.jit
def _linear(display, view, LINEAR: tl.constexpr):
    """`optics.to_linear` of values, 0 below 0; and its derivative."""
    above = tl.maximum(display, 0.0)
    if LINEAR:
        light = above
        slope = above * 0.0 + 1
    else:
        gamma, shift, knee = tl.load(view + 21), tl.load(view + 22), tl.load(view + 23)
        toe = tl.exp(gamma * tl.log((knee + shift) / (1 + shift))) / knee
        curved = tl.exp(gamma * tl.log((tl.maximum(above, knee) + shift) / (1 + shift)))
        light = tl.where(above <= knee, above * toe, curved)
        slope = tl.where(above <= knee, toe, gamma * curved / (above + shift))
    return light, tl.where(display > 0, slope, 0.0)


@triton.jit
def project_forward(  # noqa: PLR0913, PLR0917
    means, log_scales, rotations, logits, harmonics, view, table, reach, depth, count,
    ROWS: tl.constexpr, KINDS: tl.constexpr, LINEAR: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Fill `table` (N, 10), `reach` and `depth` (N,), 0 before; `harmonics` has ROWS of which KINDS count."""
    i = tl.cast(tl.program_id(0), tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = i < count
    u, v, z = _local(i, exists, means, view)
    tl.store(depth + i, z, mask=exists)
    fx, fy, cx, cy = tl.load(view + 12), tl.load(view + 13), tl.load(view + 14), tl.load(view + 15)
    width, height, kept = tl.load(view + 16), tl.load(view + 17), tl.load(view + 19)
    near = 1 / z
    slope_x, slope_y = _clamped(u * near, fx, cx, width), _clamped(v * near, fy, cy, height)
    column, row = cx + fx * (u * near), cy + fy * (v * near)
    j0, j1, j2, j3, j4, j5 = _slopes(fx * near, slope_x, fy * near, slope_y, view)
    qw, qx, qy, qz, _ = _quaternion(i, exists, rotations)
    r0, r1, r2, r3, r4, r5, r6, r7, r8 = _rotation(qw, qx, qy, qz)
    s0, s1, s2 = _sizes(i, exists, log_scales)
    t0, t1, t2 = _turned(j0, j1, j2, r0, r1, r2, r3, r4, r5, r6, r7, r8, s0, s1, s2)
    t3, t4, t5 = _turned(j3, j4, j5, r0, r1, r2, r3, r4, r5, r6, r7, r8, s0, s1, s2)
    xx, xy, yy = t0 * t0 + t1 * t1 + t2 * t2, t0 * t3 + t1 * t4 + t2 * t5, t3 * t3 + t4 * t4 + t5 * t5
    n0, n1, n2 = _cross(t0, t1, t2, t3, t4, t5)
    flat = n0 * n0 + n1 * n1 + n2 * n2
    blur = tl.load(view + 24) * (tl.load(view + 25) - near)
    radius = tl.load(view + 18) * blur
    grown = _LOW_PASS + radius * radius / 4
    det = flat + grown * (xx + yy) + grown * grown
    det_kept = tl.maximum(flat + kept * (xx + yy) + kept * kept, 1e-30)
    solid = 1 / (1 + tl.exp(-tl.load(logits + i, mask=exists, other=0.0)))
    opacity = solid * tl.sqrt(det_kept / det)
    lost = tl.minimum(_FAINTEST / tl.maximum(opacity, 1e-30), tl.maximum(_FAINTEST / solid, _LOST))
    ends = -2 * tl.log(tl.minimum(lost, 1.0))
    half_x, half_y = tl.sqrt(ends * (xx + grown)) + tl.abs(blur), tl.sqrt(ends * (yy + grown)) + tl.abs(blur)
    drawn = exists & (z > tl.load(view + 20)) & (solid > _FAINTEST) & (ends > 0) & (det < _LARGEST)
    drawn &= (column + half_x > 0) & (column - half_x < width) & (row + half_y > 0) & (row - half_y < height)
    x, y, w, _ = _direction(u, v, z, view)
    red, green, blue = _colour(i, drawn, x, y, w, harmonics, ROWS, KINDS)
    red, _ = _linear(red, view, LINEAR)
    green, _ = _linear(green, view, LINEAR)
    blue, _ = _linear(blue, view, LINEAR)
    drawn &= tl.abs(red + green + blue) < _LARGEST  # not NaN
    at = table + 10 * i
    tl.store(at, column, mask=drawn)
    tl.store(at + 1, row, mask=drawn)
    tl.store(at + 2, (yy + grown) / det, mask=drawn)
    tl.store(at + 3, -xy / det, mask=drawn)
    tl.store(at + 4, (xx + grown) / det, mask=drawn)
    tl.store(at + 5, opacity, mask=drawn)
    tl.store(at + 6, red, mask=drawn)
    tl.store(at + 7, green, mask=drawn)
    tl.store(at + 8, blue, mask=drawn)
    tl.store(at + 9, near, mask=drawn)
    tl.store(reach + i, ends, mask=drawn)


@triton.jit
def project_backward(  # noqa: PLR0913, PLR0917
    means, log_scales, rotations, logits, harmonics, view, table, reach, g_table,
    g_means, g_scales, g_rotations, g_logits, g_harmonics, g_lens, count,
    ROWS: tl.constexpr, KINDS: tl.constexpr, LINEAR: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients, 0 before, from `g_table` (N, 10), that of the table. `g_lens` (N, 2) is each Gaussian's part of those
    of aperture and focus disparity."""
    i = tl.cast(tl.program_id(0), tl.int64) * BLOCK + tl.arange(0, BLOCK)
    drawn = tl.load(reach + i, mask=i < count, other=0.0) > 0
    u, v, z = _local(i, drawn, means, view)
    z = tl.where(drawn, z, 1.0)
    fx, fy, cx, cy = tl.load(view + 12), tl.load(view + 13), tl.load(view + 14), tl.load(view + 15)
    aperture, focus, part, kept = tl.load(view + 24), tl.load(view + 25), tl.load(view + 18), tl.load(view + 19)
    near = 1 / z
    slope_x, slope_y = _clamped(u * near, fx, cx, tl.load(view + 16)), _clamped(v * near, fy, cy, tl.load(view + 17))
    zoom_x, zoom_y = fx * near, fy * near
    j0, j1, j2, j3, j4, j5 = _slopes(zoom_x, slope_x, zoom_y, slope_y, view)
    qw, qx, qy, qz, over_length = _quaternion(i, drawn, rotations)
    r0, r1, r2, r3, r4, r5, r6, r7, r8 = _rotation(qw, qx, qy, qz)
    s0, s1, s2 = _sizes(i, drawn, log_scales)
    t0, t1, t2 = _turned(j0, j1, j2, r0, r1, r2, r3, r4, r5, r6, r7, r8, s0, s1, s2)
    t3, t4, t5 = _turned(j3, j4, j5, r0, r1, r2, r3, r4, r5, r6, r7, r8, s0, s1, s2)
    xx, xy, yy = t0 * t0 + t1 * t1 + t2 * t2, t0 * t3 + t1 * t4 + t2 * t5, t3 * t3 + t4 * t4 + t5 * t5
    n0, n1, n2 = _cross(t0, t1, t2, t3, t4, t5)
    flat = n0 * n0 + n1 * n1 + n2 * n2
    radius = part * aperture * (focus - near)
    grown = _LOW_PASS + radius * radius / 4
    over = 1 / (flat + grown * (xx + yy) + grown * grown)
    det_kept = flat + kept * (xx + yy) + kept * kept

    # Conic = (yy + grown, −xy, xx + grown) / det; opacity = sigmoid · sqrt(kept / det); both determinants are flat + …
    # · trace + …². Going by flat keeps needles exact, which dK = −K dΣ K would not in float32.
    at = g_table + 10 * i
    g_yy = tl.load(at + 2, mask=drawn, other=0.0) * over
    g_xy = -tl.load(at + 3, mask=drawn, other=0.0) * over
    g_xx = tl.load(at + 4, mask=drawn, other=0.0) * over
    light = tl.load(at + 5, mask=drawn, other=0.0) * tl.load(table + 10 * i + 5, mask=drawn, other=0.0)
    logit = tl.load(logits + i, mask=drawn, other=0.0)
    tl.store(g_logits + i, light / (1 + tl.exp(logit)), mask=drawn)
    g_det = -(g_yy * (yy + grown) + g_xy * xy + g_xx * (xx + grown) + light / 2) * over
    g_kept = tl.where(det_kept > 1e-30, light / (2 * tl.maximum(det_kept, 1e-30)), 0.0)
    g_flat, g_trace = g_det + g_kept, g_det * grown + g_kept * kept
    g_radius = part * (g_xx + g_yy + g_det * (xx + yy + 2 * grown)) * radius / 2

    # (xx, xy, yy, flat) → T; p is the gradient of T.
    g_xx, g_yy = g_xx + g_trace, g_yy + g_trace
    c0, c1, c2 = _cross(t3, t4, t5, n0, n1, n2)
    d0, d1, d2 = _cross(n0, n1, n2, t0, t1, t2)
    p0 = 2 * (g_xx * t0 + g_flat * c0) + g_xy * t3
    p1 = 2 * (g_xx * t1 + g_flat * c1) + g_xy * t4
    p2 = 2 * (g_xx * t2 + g_flat * c2) + g_xy * t5
    p3 = 2 * (g_yy * t3 + g_flat * d0) + g_xy * t0
    p4 = 2 * (g_yy * t4 + g_flat * d1) + g_xy * t1
    p5 = 2 * (g_yy * t5 + g_flat * d2) + g_xy * t2
    tl.store(g_scales + 3 * i, p0 * t0 + p3 * t3, mask=drawn)
    tl.store(g_scales + 3 * i + 1, p1 * t1 + p4 * t4, mask=drawn)
    tl.store(g_scales + 3 * i + 2, p2 * t2 + p5 * t5, mask=drawn)
    # T = J W R times scales; p becomes the gradient of J W R.
    p0, p1, p2, p3, p4, p5 = p0 * s0, p1 * s1, p2 * s2, p3 * s0, p4 * s1, p5 * s2
    g00, g01, g02 = j0 * p0 + j3 * p3, j0 * p1 + j3 * p4, j0 * p2 + j3 * p5
    g10, g11, g12 = j1 * p0 + j4 * p3, j1 * p1 + j4 * p4, j1 * p2 + j4 * p5
    g20, g21, g22 = j2 * p0 + j5 * p3, j2 * p1 + j5 * p4, j2 * p2 + j5 * p5
    hw = 2 * (qx * (g21 - g12) + qy * (g02 - g20) + qz * (g10 - g01))
    hx = 2 * (qy * (g01 + g10) + qz * (g02 + g20) + qw * (g21 - g12) - 2 * qx * (g11 + g22))
    hy = 2 * (qx * (g01 + g10) + qz * (g12 + g21) + qw * (g02 - g20) - 2 * qy * (g00 + g22))
    hz = 2 * (qx * (g02 + g20) + qy * (g12 + g21) + qw * (g10 - g01) - 2 * qz * (g00 + g11))
    along = hw * qw + hx * qx + hy * qy + hz * qz
    tl.store(g_rotations + 4 * i, (hw - along * qw) * over_length, mask=drawn)
    tl.store(g_rotations + 4 * i + 1, (hx - along * qx) * over_length, mask=drawn)
    tl.store(g_rotations + 4 * i + 2, (hy - along * qy) * over_length, mask=drawn)
    tl.store(g_rotations + 4 * i + 3, (hz - along * qz) * over_length, mask=drawn)

    # J W → J → the mean.
    w0, w1, w2, w3 = tl.load(view), tl.load(view + 1), tl.load(view + 2), tl.load(view + 3)
    w4, w5, w6, w7, w8 = (
        tl.load(view + 4),
        tl.load(view + 5),
        tl.load(view + 6),
        tl.load(view + 7),
        tl.load(view + 8),
    )
    gx0, gx1, gx2 = p0 * r0 + p1 * r1 + p2 * r2, p0 * r3 + p1 * r4 + p2 * r5, p0 * r6 + p1 * r7 + p2 * r8
    gy0, gy1, gy2 = p3 * r0 + p4 * r1 + p5 * r2, p3 * r3 + p4 * r4 + p5 * r5, p3 * r6 + p4 * r7 + p5 * r8
    tilt_x, tilt_y = gx0 * w6 + gx1 * w7 + gx2 * w8, gy0 * w6 + gy1 * w7 + gy2 * w8
    g_zoom_x = gx0 * w0 + gx1 * w1 + gx2 * w2 - tilt_x * slope_x
    g_zoom_y = gy0 * w3 + gy1 * w4 + gy2 * w5 - tilt_y * slope_y
    g_slope_x = fx * tl.load(at, mask=drawn, other=0.0) - tl.where(slope_x == u * near, tilt_x * zoom_x, 0.0)
    g_slope_y = fy * tl.load(at + 1, mask=drawn, other=0.0) - tl.where(slope_y == v * near, tilt_y * zoom_y, 0.0)
    g_u, g_v = g_slope_x * near, g_slope_y * near
    g_disparity = tl.load(at + 9, mask=drawn, other=0.0) - g_radius * aperture
    g_z = -(g_slope_x * u + g_slope_y * v + g_zoom_x * fx + g_zoom_y * fy + g_disparity) * near * near

    x, y, w, over_distance = _direction(u, v, z, view)
    red, green, blue = _colour(i, drawn, x, y, w, harmonics, ROWS, KINDS)
    g_red = tl.load(at + 6, mask=drawn, other=0.0) * _linear(red, view, LINEAR)[1]
    g_green = tl.load(at + 7, mask=drawn, other=0.0) * _linear(green, view, LINEAR)[1]
    g_blue = tl.load(at + 8, mask=drawn, other=0.0) * _linear(blue, view, LINEAR)[1]
    g_x, g_y, g_w = x * 0.0, x * 0.0, x * 0.0
    for k in tl.static_range(KINDS):
        value, by_x, by_y, by_z = _harmonic(k, x, y, w)
        place = 3 * (i * ROWS + k)
        tl.store(g_harmonics + place, g_red * value, mask=drawn)
        tl.store(g_harmonics + place + 1, g_green * value, mask=drawn)
        tl.store(g_harmonics + place + 2, g_blue * value, mask=drawn)
        g_value = g_red * tl.load(harmonics + place, mask=drawn, other=0.0)
        g_value += g_green * tl.load(harmonics + place + 1, mask=drawn, other=0.0)
        g_value += g_blue * tl.load(harmonics + place + 2, mask=drawn, other=0.0)
        g_x, g_y, g_w = g_x + g_value * by_x, g_y + g_value * by_y, g_w + g_value * by_z
    ahead = g_x * x + g_y * y + g_w * w
    g_x, g_y, g_w = (
        (g_x - ahead * x) * over_distance,
        (g_y - ahead * y) * over_distance,
        (g_w - ahead * w) * over_distance,
    )
    # The direction is in world axes; the rest goes back to them by Wᵀ.
    tl.store(g_means + 3 * i, w0 * g_u + w3 * g_v + w6 * g_z + g_x, mask=drawn)
    tl.store(g_means + 3 * i + 1, w1 * g_u + w4 * g_v + w7 * g_z + g_y, mask=drawn)
    tl.store(g_means + 3 * i + 2, w2 * g_u + w5 * g_v + w8 * g_z + g_w, mask=drawn)
    tl.store(g_lens + 2 * i, g_radius * (focus - near), mask=drawn)
    tl.store(g_lens + 2 * i + 1, g_radius * aperture, mask=drawn)
