"""`samples.guided` in numba, a ray at a time, without intermediate arrays. A job owns a range of rays."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dofnerf.models.volume.rays.cameras import Rays
from dofnerf.models.volume.rays.samples import LEAST
from dofnerf.models.volume.rays.space import Space
from dofnerf.optics.kernels import compiled, run_jobs


def guide(rays: Rays, space: Space, grid: Tensor, targets: Tensor, steps: int, spread: float) -> Tensor:
    """As `samples.guided`."""
    edges = torch.linspace(0, 1, steps + 1)
    ends = space.depth_of(edges)
    middle = space.depth_of((edges[1:] + edges[:-1]) / 2).numpy()
    length = ((ends[1:] - ends[:-1]) / space.unit).numpy()
    out = torch.empty(targets.shape)
    count = targets.shape[-1]
    box = np.array([*space.low, *space.high], dtype=np.float32)
    frame = np.array(space.frame, dtype=np.float32)
    if out.numel():
        arrays = (_rows(rays.origins, 3), _rows(rays.directions, 3), _rows(targets, count))
        where = (space.kind == "forward", frame, box, grid.numpy(), middle, length, np.float32(spread))
        run_jobs(_guide_rays, out.numel() // count, (*arrays, *where, out.view(-1, count).numpy()))
    return out


def _rows(tensor: Tensor, width: int) -> np.ndarray:
    """(…, width) → (R, width), contiguous: numba compiles once per layout."""
    return tensor.detach().reshape(-1, width).contiguous().numpy()


@compiled
def _cell(place, side):
    """The cell of a coordinate in a grid of `side` cells; 0 of NaN, whose integer would be anything."""
    return np.uintp(min(max(np.float32(0), place), np.float32(side - 1)))


@compiled
def _guide_rays(first, last, origins, directions, targets, forward, frame, box, grid, middle, length, spread, out):  # noqa: PLR0913, PLR0917
    """Edges `out` (R, M) of rays [first, last). `box` is the space's low and high, `frame` (3, 4) world → local."""
    steps, side = len(middle), grid.shape[0]
    weight = np.empty(steps + 2, np.float32)
    heights = np.empty(steps + 1, np.float32)
    one, half, two = np.float32(1), np.float32(0.5), np.float32(2)
    to_cell = np.float32(side) / two
    nearest = np.float32(0.5) / box[5]
    sx, sy, sz = two / (box[3] - box[0]), two / (box[4] - box[1]), two / (box[5] - box[2])
    for ray in range(first, last):
        o, d = origins[ray], directions[ray]
        # The ray in local coordinates, a + depth · b.
        ax = frame[0, 0] * o[0] + frame[0, 1] * o[1] + frame[0, 2] * o[2] + frame[0, 3]
        ay = frame[1, 0] * o[0] + frame[1, 1] * o[1] + frame[1, 2] * o[2] + frame[1, 3]
        az = frame[2, 0] * o[0] + frame[2, 1] * o[1] + frame[2, 2] * o[2] + frame[2, 3]
        bx = frame[0, 0] * d[0] + frame[0, 1] * d[1] + frame[0, 2] * d[2]
        by = frame[1, 0] * d[0] + frame[1, 1] * d[1] + frame[1, 2] * d[2]
        bz = frame[2, 0] * d[0] + frame[2, 1] * d[1] + frame[2, 2] * d[2]
        norm = np.sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2])
        light = one
        weight[0] = weight[steps + 1] = np.float32(0)
        for i in range(steps):
            x, y, z = ax + middle[i] * bx, ay + middle[i] * by, az + middle[i] * bz
            if forward:
                disparity = one / max(z, nearest)
                x = (x * disparity - box[0]) * sx
                y = (y * disparity - box[1]) * sy
                z = (disparity - box[2]) * sz
            else:
                far = max(np.sqrt(x * x + y * y + z * z), one)
                scale = (two - one / far) / far * half
                x, y, z = x * scale + one, y * scale + one, z * scale + one
            u = _cell(x * to_cell, side)
            v = _cell(y * to_cell, side)
            w = _cell(z * to_cell, side)
            passed = np.exp(-grid[u, v, w] * length[i] * norm)
            weight[i + 1] = light * (one - passed)
            light *= passed
        # Widen to the neighbours; cumulative sum.
        total = np.float32(0)
        before = max(weight[0], weight[1])
        heights[0] = np.float32(0)
        for i in range(steps):
            after = max(weight[i + 1], weight[i + 2])
            total += (before + after) * half
            heights[i + 1] = total
            before = after
        anywhere = spread / np.float32(steps) * max(total, np.float32(LEAST))
        scale = one / (total + anywhere * np.float32(steps))
        # Invert; targets ascend, so one pass suffices.
        right = 1
        for j in range(targets.shape[1]):
            t = targets[ray, j]
            while right < steps and (heights[right] + anywhere * np.float32(right)) * scale <= t:
                right += 1
            low = (heights[right - 1] + anywhere * np.float32(right - 1)) * scale
            high = (heights[right] + anywhere * np.float32(right)) * scale
            share = min(max((t - low) / max(high - low, np.float32(1e-12)), np.float32(0)), one)
            out[ray, j] = (np.float32(right - 1) + share) / np.float32(steps)
