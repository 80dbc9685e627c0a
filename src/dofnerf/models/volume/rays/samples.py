"""Samples along a ray: edges of intervals in the space's s, 0 (near) to 1 (far).

N intervals have N + 1 edges, sorted; the field is evaluated in the middle of each. A coarse-fine pair puts its fine
samples where the coarse network found weight (`importance`). The fast way is a grid of cached densities: a ray is
walked in `steps` even steps, and the weights that the grid gives are the distribution of the samples (`guided`). An
empty grid gives even samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from dofnerf.models.volume.rays.cameras import Rays
from dofnerf.models.volume.rays.space import Space

Backend = Literal["auto", "reference", "cpu"]
SPREAD = 0.01  # share of the samples that is uniform, whatever the weights: nothing is missed for good
LEAST = 1e-3  # sum of weights below which samples are uniform
KEEP = 0.9  # of a cell's density, per refresh of the grid
_CHUNK = 1 << 16  # points per evaluation of the field


class Samples(NamedTuple):
    """N per ray: `points` (…, N, 3) in the world, `depth` (…, N), and the length `distance` (…, N) of each interval
    along the ray, in the space's unit."""

    points: Tensor
    depth: Tensor
    distance: Tensor


def stratified(
    shape: tuple[int, ...], count: int, generator: torch.Generator | None = None, device: torch.device | str = "cpu"
) -> Tensor:
    """Edges (*shape, count + 1), evenly spaced; with a generator, inner ones jittered by up to half an interval."""
    edges = torch.linspace(0, 1, count + 1, device=device).expand(*shape, count + 1)
    if generator is None:
        return edges
    jitter = (torch.rand(*shape, count + 1, generator=generator, device=device) - 0.5) / count
    jitter[..., 0] = jitter[..., -1] = 0
    return edges + jitter


def importance(
    edges: Tensor,
    weights: Tensor,
    count: int,
    generator: torch.Generator | None = None,
    targets: Tensor | None = None,
    spread: float = SPREAD,
) -> Tensor:
    """`count` + 1 new edges (…, count + 1), distributed by the `weights` (…, N) of the intervals of `edges` (…, N + 1).

    The cumulative distribution is inverted at `targets`, by default `stratified`. Weights are first widened to their
    neighbours, as in mip-NeRF, so that a surface at the edge of an interval is not missed. A share of about `spread` is
    uniform. No gradients.
    """
    weights = weights.detach()
    beside = pad(weights, (1, 1))
    widest = torch.maximum(beside[..., 1:], beside[..., :-1])
    wide = (widest[..., 1:] + widest[..., :-1]) / 2
    share = wide + spread * (edges[..., 1:] - edges[..., :-1]) * wide.sum(-1, keepdim=True).clamp(min=LEAST)
    heights = pad(share.cumsum(-1), (1, 0))
    heights = heights / heights[..., -1:]
    if targets is None:
        targets = stratified(weights.shape[:-1], count, generator, weights.device)
    return interpolate(targets.to(heights.dtype).contiguous(), heights, edges.detach())


def interpolate(x: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    """np.interp for each ray: the polyline through (xs, ys) (…, N), xs ascending, at x (…, M)."""
    right = torch.searchsorted(xs.contiguous(), x, right=True).clamp(1, xs.shape[-1] - 1)
    x0, x1 = xs.gather(-1, right - 1), xs.gather(-1, right)
    y0, y1 = ys.gather(-1, right - 1), ys.gather(-1, right)
    share = ((x - x0) / (x1 - x0).clamp(min=1e-12)).clamp(0, 1)
    return y0 + share * (y1 - y0)


def merge(a: Tensor, b: Tensor) -> Tensor:
    """All edges of both, with common ends: the paper's fine network also evaluates the coarse samples."""
    return torch.cat([a, b[..., 1:-1]], dim=-1).sort(dim=-1).values


def samples_between(rays: Rays, edges: Tensor, space: Space) -> Samples:
    """One sample in the middle, in s, of each interval of `edges` (…, N + 1)."""
    depth = space.depth_of((edges[..., 1:] + edges[..., :-1]) / 2)
    ends = space.depth_of(edges)
    distance = (ends[..., 1:] - ends[..., :-1]) * (rays.norms[..., None] / space.unit)
    return Samples(rays.at(depth), depth, distance)


def guided(
    rays: Rays,
    space: Space,
    grid: Tensor,
    targets: Tensor,
    steps: int = 64,
    backend: Backend = "auto",
    spread: float = SPREAD,
) -> Tensor:
    """Edges (…, N + 1) for rays (…); `grid` (G, G, G) is the density of the cube's cells by (x, y, z). No gradients.

    `targets` (…, N + 1), from 0 to 1, are the shares of the weight before each edge (`stratified`).
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
        before = pad(thickness.cumsum(-1), (1, 0))[..., :-1]
        return importance(edges, torch.exp(-before) * -torch.expm1(-thickness), count, targets=targets, spread=spread)


def look_up(grid: Tensor, cube: Tensor) -> Tensor:
    """The values (…) of the cells of points (…, 3) of the cube; outside, of the nearest cell."""
    side = len(grid)
    x, y, z = ((cube + 1) * (side / 2)).long().clamp(0, side - 1).unbind(-1)
    return grid[x, y, z]


class DensityGrid(nn.Module):
    """Cached `density` (side, side, side) of a field by (x, y, z), a buffer.

    A cell keeps the largest density found in it, times `KEEP` per refresh, so that thin things missed by a random
    sample are not lost at once.
    """

    density: Tensor

    def __init__(self, side: int = 64) -> None:
        super().__init__()
        if side < 2:
            raise ValueError(f"a density grid needs 2 cells a side or more, found {side}")
        self.register_buffer("density", torch.zeros(side, side, side))

    @torch.no_grad()
    def refresh(
        self, density: Callable[[Tensor], Tensor], share: float = 1.0, generator: torch.Generator | None = None
    ) -> None:
        """Sample one random point in each of a `share` of the cells: a strided subset with a random offset.

        `density` maps points (N, 3) of the cube to (N,).
        """
        side, device = self.density.shape[0], self.density.device
        every = max(1, round(1 / share))
        start = int(torch.randint(every, (), generator=generator, device=device))
        flat = self.density.view(-1)
        for part in torch.arange(start, side**3, every, device=device).split(_CHUNK):
            corner = torch.stack([part // side**2, part // side % side, part % side], dim=-1)
            points = (corner + torch.rand(len(part), 3, generator=generator, device=device)) * (2 / side) - 1
            flat[part] = torch.maximum(KEEP * flat[part], density(points))
