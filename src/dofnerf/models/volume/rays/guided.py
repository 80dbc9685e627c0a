"""Samples where something is: a grid of densities, remembered from before, tells where along a ray to look.

The ray is walked in `steps` even steps, the grid is asked at the middle of each, and the weights that it would give are
the distribution of the real samples (`importance`). A grid that knows nothing gives even samples. Two twins: plain
PyTorch here is the specification; `guided_cpu` does a ray at a time in numba, without writing down any of it.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from dofnerf.models.volume.rays.cameras import Rays
from dofnerf.models.volume.rays.samples import SPREAD, importance, samples_between, stratified
from dofnerf.models.volume.rays.space import Space

Backend = Literal["auto", "reference", "cpu"]


def guided(
    rays: Rays,
    space: Space,
    grid: Tensor,
    targets: Tensor,
    steps: int = 64,
    backend: Backend = "auto",
    spread: float = SPREAD,
) -> Tensor:
    """Edges (…, N + 1) for rays (…); `grid` (G, G, G) is density by (x, y, z) in the cells of the cube. No gradients.

    `targets` (…, N + 1), rising from 0 to 1, are the shares of the weight that lie before each edge (`stratified`).
    """
    device, count = rays.origins.device, targets.shape[-1] - 1
    with torch.no_grad():
        native = device.type == "cpu" and rays.origins.dtype == grid.dtype == torch.float32
        if backend == "cpu" or (backend == "auto" and native):
            from dofnerf.models.volume.rays.guided_cpu import guide

            return guide(rays, space, grid, targets, steps, spread)
        edges = stratified(rays.shape, steps, None, device).to(rays.origins.dtype)
        samples = samples_between(rays, edges, space)
        thickness = look_up(grid, space.warp(samples.points)) * samples.distance
        before = torch.nn.functional.pad(thickness.cumsum(-1), (1, 0))[..., :-1]
        return importance(edges, torch.exp(-before) * -torch.expm1(-thickness), count, targets=targets, spread=spread)


def look_up(grid: Tensor, cube: Tensor) -> Tensor:
    """The value (…) of the cell in which the points (…, 3) of the cube lie; outside, the nearest cell's."""
    side = len(grid)
    x, y, z = ((cube + 1) * (side / 2)).long().clamp(0, side - 1).unbind(-1)
    return grid[x, y, z]
