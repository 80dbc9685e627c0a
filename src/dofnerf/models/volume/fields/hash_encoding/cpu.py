"""Hash encoding on the CPU in numba: the twin of reference.py.

All points go through one level before the next: a level's part of the table then stays in the cache, which counts for
twice as much as keeping the points there. Features lie feature by feature, (width, N): each level writes, and the
network after it reads, long rows; outside they look like (N, width). Forward, and for the gradient of the points, a job
owns a band of points; for the gradient of the table it owns *levels*, each a part of the table of its own. So nothing
is shared, there are no atomics, and the result is the same for any number of threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dofnerf.models.volume.fields.hash_encoding.reference import PRIME_Y, PRIME_Z
from dofnerf.optics.kernels import compiled, run_jobs

if TYPE_CHECKING:
    from dofnerf.models.volume.fields.hash_encoding import Grid

_Y, _Z = np.uint32(PRIME_Y), np.uint32(PRIME_Z)
_ONE = np.float32(1)


def encode(points: Tensor, table: Tensor, grid: Grid) -> Tensor:
    """As `hash_encoding.encode`, for float32 on the CPU."""
    return _Encode.apply(points, table, grid)


class _Encode(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor, table: Tensor, grid: Grid) -> Tensor:
        points, table = points.detach().contiguous(), table.detach().contiguous()
        ctx.save_for_backward(points, table)
        ctx.grid = grid
        out = torch.empty(grid.width, len(points))
        if len(points):
            run_jobs(encode_points, len(points), (points.numpy(), table.numpy(), _levels(grid), out.numpy()))
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
                run_jobs(move_points, len(points), (points.numpy(), table.numpy(), levels, grad, grad_points.numpy()))
        if ctx.needs_input_grad[1]:
            grad_table = torch.zeros_like(table)
            if len(points):
                run_jobs(fill_levels, ctx.grid.levels, (points.numpy(), levels, grad, grad_table.numpy()))
        return grad_points, grad_table, None


def _levels(grid: Grid) -> np.ndarray:
    """(levels, 3): resolution, size, first row of the table."""
    first = np.concatenate([[0], np.cumsum(grid.sizes)[:-1]])
    return np.stack([np.array(grid.resolutions), np.array(grid.sizes), first], axis=1).astype(np.int64)


@compiled
def _cell(p, resolution):
    """The cell of one coordinate, and how far the point lies in it, 0 … 1."""
    scaled = min(max(p, np.float32(0)), _ONE) * np.float32(resolution)
    cell = min(np.int32(scaled), np.int32(resolution - 1))
    return np.uint32(cell), scaled - np.float32(cell)


@compiled
def _strides(resolution, size):
    """How y and z enter the address: by rows, or by hash, and then with which mask (all ones: rows)."""
    side = resolution + 1
    if side * side * side <= size:
        return np.uint32(side), np.uint32(side * side), False, np.uint32(0)
    return _Y, _Z, True, np.uint32(size - 1)


@compiled
def _place(points, i, resolution, step_y, step_z):
    """Where point i lies: the address parts (x, y, z) of its cell's low and high corner, and how far it lies in the
    cell."""
    x, fx = _cell(points[i, 0], resolution)
    y, fy = _cell(points[i, 1], resolution)
    z, fz = _cell(points[i, 2], resolution)
    y, z = np.uint32(y * step_y), np.uint32(z * step_z)
    return (x, y, z), (np.uint32(x + np.uint32(1)), np.uint32(y + step_y), np.uint32(z + step_z)), (fx, fy, fz)


@compiled
def _edge(corner, low, high, fy, fz, hashed, mask):
    """One of a cell's four edges along x: the rows of its two ends, and its weights along y and z."""
    y, wy = (high[1], fy) if corner & 1 else (low[1], _ONE - fy)
    z, wz = (high[2], fz) if corner & 2 else (low[2], _ONE - fz)
    left = np.uintp((low[0] ^ y ^ z) & mask if hashed else low[0] + y + z)
    right = np.uintp((high[0] ^ y ^ z) & mask if hashed else high[0] + y + z)
    return left, right, wy, wz


@compiled
def encode_points(first, last, points, table, levels, out):
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
def fill_levels(first, last, points, levels, grad, grad_table):
    """Add to the table of levels [first, last) what every point's `grad` (levels · features, N) says."""
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
def move_points(first, last, points, table, levels, grad, grad_points):
    """grad_points (N, 3) of points [first, last). Outside the cube the features do not change."""
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
