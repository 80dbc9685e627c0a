"""The hash field's encoding and network in numba: the CPU versions of `hash.encode` and `hash.perceive`.

**Encoding.** All points pass one level before the next, so a level's part of the table stays in the cache. Features are
stored feature by feature, (width, N): each level writes, and the network reads, long rows. Forward, and for the
gradient of the points, a job owns a range of points; for the gradient of the table it owns levels.

**Network.** All layers for a block of samples, which stays in the cache. The inner loops run over the samples of a
block and vectorise. A job owns chunks of whole rays. Each chunk has its own gradients of the weights, which are summed
in order at the end. The backward pass recomputes the hidden layers: cheaper than to store them. g_x is the gradient of
x.

Nothing is shared between jobs: no atomics, and the same bits for any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dofnerf.models.volume.fields.hash import PRIME_Y, PRIME_Z, Grid, Layers
from dofnerf.optics.kernels import compiled, run_jobs

CHUNK = 2048  # samples per chunk, approximately
BLOCK = 256  # samples: a layer of 32 fits the first-level cache, all of them the second
_Y, _Z = np.uint32(PRIME_Y), np.uint32(PRIME_Z)
_ONE = np.float32(1)


def encode(points: Tensor, table: Tensor, grid: Grid) -> Tensor:
    """As `hash.encode`, for float32 on the CPU."""
    return _Encode.apply(points, table, grid)


class _Encode(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor, table: Tensor, grid: Grid) -> Tensor:
        points, table = points.detach().contiguous(), table.detach().contiguous()
        ctx.save_for_backward(points, table)
        ctx.grid = grid
        out = torch.empty(grid.width, len(points))
        if len(points):
            run_jobs(_encode_points, len(points), (points.numpy(), table.numpy(), _levels(grid), out.numpy()))
        return out.t()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        points, table = ctx.saved_tensors
        grad = grads[0].t().contiguous().numpy()
        levels = _levels(ctx.grid)
        grad_points = grad_table = None
        if ctx.needs_input_grad[0]:
            grad_points = torch.zeros_like(points)
            if len(points):
                run_jobs(
                    _points_gradient, len(points), (points.numpy(), table.numpy(), levels, grad, grad_points.numpy())
                )
        if ctx.needs_input_grad[1]:
            grad_table = torch.zeros_like(table)
            if len(points):
                run_jobs(_table_gradient, ctx.grid.levels, (points.numpy(), levels, grad, grad_table.numpy()))
        return grad_points, grad_table, None


def _levels(grid: Grid) -> np.ndarray:
    """(levels, 3): resolution, size, first row of the table."""
    first = np.concatenate([[0], np.cumsum(grid.sizes)[:-1]])
    return np.stack([np.array(grid.resolutions), np.array(grid.sizes), first], axis=1).astype(np.int64)


@compiled
def _cell(p, resolution):
    """The cell of one coordinate, and the position in it, 0 … 1."""
    scaled = min(max(p, np.float32(0)), _ONE) * np.float32(resolution)
    cell = max(min(np.int32(scaled), np.int32(resolution - 1)), np.int32(0))  # of NaN, too
    return np.uint32(cell), scaled - np.float32(cell)


@compiled
def _strides(resolution, size):
    """Factors of y and z in the address, whether it is hashed, and the mask of the hash."""
    side = resolution + 1
    if side * side * side <= size:
        return np.uint32(side), np.uint32(side * side), False, np.uint32(0)
    return _Y, _Z, True, np.uint32(size - 1)


@compiled
def _place(points, i, resolution, step_y, step_z):
    """Address parts (x, y, z) of the low and high corners of point i's cell, and its position in the cell."""
    x, fx = _cell(points[i, 0], resolution)
    y, fy = _cell(points[i, 1], resolution)
    z, fz = _cell(points[i, 2], resolution)
    y, z = np.uint32(y * step_y), np.uint32(z * step_z)
    return (x, y, z), (np.uint32(x + np.uint32(1)), np.uint32(y + step_y), np.uint32(z + step_z)), (fx, fy, fz)


@compiled
def _edge(corner, low, high, fy, fz, hashed, mask):
    """One of a cell's four edges along x: table rows of its ends, and its weights along y and z."""
    y, wy = (high[1], fy) if corner & 1 else (low[1], _ONE - fy)
    z, wz = (high[2], fz) if corner & 2 else (low[2], _ONE - fz)
    left = np.uintp((low[0] ^ y ^ z) & mask if hashed else low[0] + y + z)
    right = np.uintp((high[0] ^ y ^ z) & mask if hashed else high[0] + y + z)
    return left, right, wy, wz


@compiled
def _encode_points(first, last, points, table, levels, out):
    """out (levels · features, N) of points [first, last)."""
    four = table.shape[1] == 4
    for level in range(levels.shape[0]):
        resolution, size = levels[level, 0], levels[level, 1]
        part = table[levels[level, 2] : levels[level, 2] + size]
        step_y, step_z, hashed, mask = _strides(resolution, size)
        column = level * table.shape[1]
        for i in range(first, last):
            low, high, (fx, fy, fz) = _place(points, i, resolution, step_y, step_z)
            a = b = c = d = np.float32(0)
            for corner in range(4):
                left, right, wy, wz = _edge(corner, low, high, fy, fz, hashed, mask)
                wl, wr = wy * wz * (_ONE - fx), wy * wz * fx
                a += wl * part[left, 0] + wr * part[right, 0]
                b += wl * part[left, 1] + wr * part[right, 1]
                if four:
                    c += wl * part[left, 2] + wr * part[right, 2]
                    d += wl * part[left, 3] + wr * part[right, 3]
            out[column, i] = a
            out[column + 1, i] = b
            if four:
                out[column + 2, i] = c
                out[column + 3, i] = d


@compiled
def _table_gradient(first, last, points, levels, grad, grad_table):
    """Gradient of the table's levels [first, last) from that of the features, `grad` (levels · features, N)."""
    four = grad_table.shape[1] == 4
    for level in range(first, last):
        resolution, size = levels[level, 0], levels[level, 1]
        part = grad_table[levels[level, 2] : levels[level, 2] + size]
        step_y, step_z, hashed, mask = _strides(resolution, size)
        column = level * grad_table.shape[1]
        for i in range(points.shape[0]):
            low, high, (fx, fy, fz) = _place(points, i, resolution, step_y, step_z)
            a, b = grad[column, i], grad[column + 1, i]
            c, d = (grad[column + 2, i], grad[column + 3, i]) if four else (np.float32(0), np.float32(0))
            for corner in range(4):
                left, right, wy, wz = _edge(corner, low, high, fy, fz, hashed, mask)
                wl, wr = wy * wz * (_ONE - fx), wy * wz * fx
                part[left, 0] += wl * a
                part[left, 1] += wl * b
                if four:
                    part[left, 2] += wl * c
                    part[left, 3] += wl * d
                part[right, 0] += wr * a
                part[right, 1] += wr * b
                if four:
                    part[right, 2] += wr * c
                    part[right, 3] += wr * d


@compiled
def _points_gradient(first, last, points, table, levels, grad, grad_points):
    """grad_points (N, 3) of points [first, last); 0 outside the cube."""
    four = table.shape[1] == 4
    for level in range(levels.shape[0]):
        resolution, size = levels[level, 0], levels[level, 1]
        part = table[levels[level, 2] : levels[level, 2] + size]
        step_y, step_z, hashed, mask = _strides(resolution, size)
        column = level * table.shape[1]
        for i in range(first, last):
            low, high, (fx, fy, fz) = _place(points, i, resolution, step_y, step_z)
            a, b = grad[column, i], grad[column + 1, i]
            c, d = (grad[column + 2, i], grad[column + 3, i]) if four else (np.float32(0), np.float32(0))
            gx = gy = gz = np.float32(0)
            for corner in range(4):
                left, right, wy, wz = _edge(corner, low, high, fy, fz, hashed, mask)
                sy, sz = _ONE if corner & 1 else -_ONE, _ONE if corner & 2 else -_ONE
                near = a * part[left, 0] + b * part[left, 1]
                far = a * part[right, 0] + b * part[right, 1]
                if four:
                    near += c * part[left, 2] + d * part[left, 3]
                    far += c * part[right, 2] + d * part[right, 3]
                along = near * (_ONE - fx) + far * fx
                gx += (far - near) * wy * wz
                gy += sy * wz * along
                gz += sz * wy * along
            scale = np.float32(resolution)
            grad_points[i, 0] += gx * scale if np.float32(0) <= points[i, 0] <= _ONE else np.float32(0)
            grad_points[i, 1] += gy * scale if np.float32(0) <= points[i, 1] <= _ONE else np.float32(0)
            grad_points[i, 2] += gz * scale if np.float32(0) <= points[i, 2] <= _ONE else np.float32(0)


def perceive(encoded: Tensor, seen: Tensor, layers: Layers) -> tuple[Tensor, Tensor]:
    """As `hash.perceive`, for float32 on the CPU."""
    return _Perceive.apply(encoded, seen, *layers)


class _Perceive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, encoded: Tensor, seen: Tensor, *layers: Tensor) -> tuple[Tensor, Tensor]:
        rows, seen = encoded.detach().t().contiguous(), seen.detach().contiguous()
        ctx.save_for_backward(rows, seen, *layers)
        per_ray, rays, chunks = _chunks(rows, seen)
        out = torch.empty(4, rows.shape[1])
        arrays = [layer.detach().contiguous().numpy() for layer in layers]
        run_jobs(_forward_chunks, chunks, (rays, per_ray, rows.numpy(), seen.numpy(), *arrays, out.numpy()))
        return out[:3].t(), out[3]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, seen, *layers = ctx.saved_tensors
        per_ray, rays, chunks = _chunks(rows, seen)
        g_out = torch.cat([grads[0].t(), grads[1][None]]).contiguous()
        grad_rows, grad_seen = torch.empty_like(rows), torch.zeros_like(seen)
        sums = [np.zeros((chunks, *layer.shape), dtype=np.float32) for layer in layers]
        arrays = [layer.detach().contiguous().numpy() for layer in layers]
        fixed = (
            rays,
            per_ray,
            rows.numpy(),
            seen.numpy(),
            *arrays,
            g_out.numpy(),
            grad_rows.numpy(),
            grad_seen.numpy(),
        )
        run_jobs(_backward_chunks, chunks, (*fixed, *sums))
        return (grad_rows.t(), grad_seen, *(torch.from_numpy(part.sum(axis=0)) for part in sums))


def _chunks(rows: Tensor, seen: Tensor) -> tuple[int, int, int]:
    """Samples per ray, rays per chunk, chunks."""
    per_ray = rows.shape[1] // len(seen)
    rays = max(1, CHUNK // per_ray)
    return per_ray, rays, -(-len(seen) // rays)


@compiled
def _layer(weight, bias, x, start, count, out):
    """out[j, s] = bias[j] + Σ_c weight[j, c] · x[c, start + s]: two rows by four columns of weights at a time."""
    outs, ins = weight.shape
    for j in range(outs):
        for s in range(count):
            out[j, s] = bias[j]
    for c in range(0, ins - 3, 4):
        x0, x1 = x[c, start : start + count], x[c + 1, start : start + count]
        x2, x3 = x[c + 2, start : start + count], x[c + 3, start : start + count]
        for j in range(0, outs - 1, 2):
            u0, u1, u2, u3 = weight[j, c], weight[j, c + 1], weight[j, c + 2], weight[j, c + 3]
            v0, v1, v2, v3 = weight[j + 1, c], weight[j + 1, c + 1], weight[j + 1, c + 2], weight[j + 1, c + 3]
            p, q = out[j], out[j + 1]
            for s in range(count):
                a0, a1, a2, a3 = x0[s], x1[s], x2[s], x3[s]
                p[s] += u0 * a0 + u1 * a1 + u2 * a2 + u3 * a3
                q[s] += v0 * a0 + v1 * a1 + v2 * a2 + v3 * a3
        if outs % 2:
            j = outs - 1
            for s in range(count):
                out[j, s] += (
                    weight[j, c] * x0[s]
                    + weight[j, c + 1] * x1[s]
                    + weight[j, c + 2] * x2[s]
                    + weight[j, c + 3] * x3[s]
                )
    for c in range(ins - ins % 4, ins):
        for j in range(outs):
            for s in range(count):
                out[j, s] += weight[j, c] * x[c, start + s]


@compiled
def _relu(x, count):
    for j in range(x.shape[0]):
        for s in range(count):
            x[j, s] = x[j, s] if x[j, s] > np.float32(0) else np.float32(0)


@compiled
def _relu_gradient(g, x, count):
    """The gradient through a relu whose result was x."""
    for j in range(x.shape[0]):
        for s in range(count):
            g[j, s] = g[j, s] if x[j, s] > np.float32(0) else np.float32(0)


@compiled
def _outer(g, x, start, count, weight, bias):
    """weight[j, c] += Σ_s g[j, s] · x[c, start + s], bias[j] += Σ_s g[j, s]: two by four at a time."""
    outs, ins = weight.shape
    for j in range(outs):
        total = np.float32(0)
        for s in range(count):
            total += g[j, s]
        bias[j] += total
    for j in range(0, outs - 1, 2):
        p, q = g[j, :count], g[j + 1, :count]
        for c in range(0, ins - 3, 4):
            x0, x1 = x[c, start : start + count], x[c + 1, start : start + count]
            x2, x3 = x[c + 2, start : start + count], x[c + 3, start : start + count]
            u0 = u1 = u2 = u3 = v0 = v1 = v2 = v3 = np.float32(0)
            for s in range(count):
                a, b = p[s], q[s]
                u0 += a * x0[s]
                u1 += a * x1[s]
                u2 += a * x2[s]
                u3 += a * x3[s]
                v0 += b * x0[s]
                v1 += b * x1[s]
                v2 += b * x2[s]
                v3 += b * x3[s]
            weight[j, c] += u0
            weight[j, c + 1] += u1
            weight[j, c + 2] += u2
            weight[j, c + 3] += u3
            weight[j + 1, c] += v0
            weight[j + 1, c + 1] += v1
            weight[j + 1, c + 2] += v2
            weight[j + 1, c + 3] += v3
    for j in range(outs):
        odd = outs % 2 == 1 and j == outs - 1
        for c in range(0 if odd else ins - ins % 4, ins):
            total = np.float32(0)
            for s in range(count):
                total += g[j, s] * x[c, start + s]
            weight[j, c] += total


@compiled
def _forward_block(start, count, per_ray, x, seen, a1, a1_bias, a2, a2_bias, b1, b1_bias, hidden, features, mixed):  # noqa: PLR0913, PLR0917
    """All but the last layer for samples [start, start + count)."""
    _layer(a1, a1_bias, x, start, count, hidden)
    _relu(hidden, count)
    _layer(a2, a2_bias, hidden, 0, count, features)
    _layer(b1, b1_bias, features, 0, count, mixed)
    s = 0
    while s < count:
        ray = (start + s) // per_ray
        stop = min(count, (ray + 1) * per_ray - start)
        for j in range(mixed.shape[0]):
            v = seen[ray, j]
            for i in range(s, stop):
                mixed[j, i] += v
        s = stop
    _relu(mixed, count)


@compiled
def _forward_chunks(  # noqa: PLR0913, PLR0917
    first, last, rays, per_ray, x, seen, a1, a1_bias, a2, a2_bias, b1, b1_bias, b2, b2_bias, out
):
    """out (4, N): raw colour and density of chunks [first, last), each of `rays` rays of `per_ray` samples."""
    samples = x.shape[1]
    hidden, mixed = np.empty((a1.shape[0], BLOCK), np.float32), np.empty((b1.shape[0], BLOCK), np.float32)
    features, colour = np.empty((a2.shape[0], BLOCK), np.float32), np.empty((b2.shape[0], BLOCK), np.float32)
    for start in range(first * rays * per_ray, min(last * rays * per_ray, samples), BLOCK):
        count = min(BLOCK, min(last * rays * per_ray, samples) - start)
        _forward_block(start, count, per_ray, x, seen, a1, a1_bias, a2, a2_bias, b1, b1_bias, hidden, features, mixed)
        _layer(b2, b2_bias, mixed, 0, count, colour)
        for j in range(b2.shape[0]):
            for s in range(count):
                out[j, start + s] = colour[j, s]
        for s in range(count):
            out[3, start + s] = features[0, s]


@compiled
def _backward_chunks(  # noqa: PLR0913, PLR0917
    first, last, rays, per_ray, x, seen, a1, a1_bias, a2, a2_bias, b1, b1_bias, b2, b2_bias, g_out, g_x, g_seen,
    g_a1, g_a1_bias, g_a2, g_a2_bias, g_b1, g_b1_bias, g_b2, g_b2_bias,
):  # fmt: skip
    """From `g_out` (4, N): g_x (C, N), g_seen (R, W), and per chunk the gradients of the layers."""
    samples = x.shape[1]
    hidden, mixed = np.empty((a1.shape[0], BLOCK), np.float32), np.empty((b1.shape[0], BLOCK), np.float32)
    features = np.empty((a2.shape[0], BLOCK), np.float32)
    g_hidden, g_mixed, g_features = np.empty_like(hidden), np.empty_like(mixed), np.empty_like(features)
    g_in, g_colour = np.empty((x.shape[0], BLOCK), np.float32), np.empty((3, BLOCK), np.float32)
    a1_back, a2_back = np.ascontiguousarray(a1.T), np.ascontiguousarray(a2.T)
    b1_back, b2_back = np.ascontiguousarray(b1.T), np.ascontiguousarray(b2.T)
    none = np.zeros(x.shape[0] + a1.shape[0] + a2.shape[0], np.float32)
    for chunk in range(first, last):
        end = min((chunk + 1) * rays * per_ray, samples)
        for start in range(chunk * rays * per_ray, end, BLOCK):
            count = min(BLOCK, end - start)
            _forward_block(
                start, count, per_ray, x, seen, a1, a1_bias, a2, a2_bias, b1, b1_bias, hidden, features, mixed
            )
            for j in range(3):
                for s in range(count):
                    g_colour[j, s] = g_out[j, start + s]
            _outer(g_colour, mixed, 0, count, g_b2[chunk], g_b2_bias[chunk])
            _layer(b2_back, none, g_colour, 0, count, g_mixed)
            _relu_gradient(g_mixed, mixed, count)
            s = 0
            while s < count:
                ray = (start + s) // per_ray
                stop = min(count, (ray + 1) * per_ray - start)
                for j in range(mixed.shape[0]):
                    total = np.float32(0)
                    for i in range(s, stop):
                        total += g_mixed[j, i]
                    g_seen[ray, j] += total
                s = stop
            _outer(g_mixed, features, 0, count, g_b1[chunk], g_b1_bias[chunk])
            _layer(b1_back, none, g_mixed, 0, count, g_features)
            for s in range(count):
                g_features[0, s] += g_out[3, start + s]
            _outer(g_features, hidden, 0, count, g_a2[chunk], g_a2_bias[chunk])
            _layer(a2_back, none, g_features, 0, count, g_hidden)
            _relu_gradient(g_hidden, hidden, count)
            _outer(g_hidden, x, start, count, g_a1[chunk], g_a1_bias[chunk])
            _layer(a1_back, none, g_hidden, 0, count, g_in)
            for c in range(x.shape[0]):
                for s in range(count):
                    g_x[c, start + s] = g_in[c, s]
