"""Where to look along a ray: edges of intervals in the space's s, 0 (near) to 1 (far).

N intervals have N + 1 edges, sorted. Density and colour are asked for in the middle of each.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dofnerf.models.volume.rays.cameras import Rays
from dofnerf.models.volume.rays.space import Space

SPREAD = 0.01  # share of the samples that falls anywhere, whatever the weights say: nothing is ever lost from sight
LEAST = 1e-3  # weights that sum to less than this count as nothing


class Samples(NamedTuple):
    """N per ray: `points` (…, N, 3) in the world, `depth` (…, N), `distance` (…, N) each stands for, in the space's
    unit."""

    points: Tensor
    depth: Tensor
    distance: Tensor


def stratified(
    shape: tuple[int, ...], count: int, generator: torch.Generator | None = None, device: torch.device | str = "cpu"
) -> Tensor:
    """Edges (*shape, count + 1), evenly spaced; with a generator, each inner one moved at random, at most half-way to
    its neighbours."""
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
    """`count` + 1 new edges (…, count + 1), dense where the `weights` (…, N) of the intervals of `edges` (…, N + 1)
    are.

    Inverse of the cumulative distribution, at evenly spaced heights, jittered with a generator (or at given `targets`).
    The weights are widened to their neighbours first, as mip-NeRF does, so that a surface on the edge of an interval is
    not missed. A share of about `spread` falls anywhere. No gradients.
    """
    weights = weights.detach()
    beside = torch.nn.functional.pad(weights, (1, 1))
    widest = torch.maximum(beside[..., 1:], beside[..., :-1])
    wide = (widest[..., 1:] + widest[..., :-1]) / 2
    share = wide + spread * (edges[..., 1:] - edges[..., :-1]) * wide.sum(-1, keepdim=True).clamp(min=LEAST)
    heights = torch.nn.functional.pad(share.cumsum(-1), (1, 0))
    heights = heights / heights[..., -1:]
    if targets is None:
        targets = stratified(weights.shape[:-1], count, generator, weights.device)
    return interpolate(targets.to(heights.dtype).contiguous(), heights, edges.detach())


def interpolate(x: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    """The broken line through (xs, ys) (…, N), xs rising, at x (…, M): np.interp, ray by ray."""
    right = torch.searchsorted(xs.contiguous(), x, right=True).clamp(1, xs.shape[-1] - 1)
    x0, x1 = xs.gather(-1, right - 1), xs.gather(-1, right)
    y0, y1 = ys.gather(-1, right - 1), ys.gather(-1, right)
    share = ((x - x0) / (x1 - x0).clamp(min=1e-12)).clamp(0, 1)
    return y0 + share * (y1 - y0)


def merge(a: Tensor, b: Tensor) -> Tensor:
    """All edges of both: the paper's fine network sees the coarse samples again. The doubled ends fall away."""
    return torch.cat([a, b[..., 1:-1]], dim=-1).sort(dim=-1).values


def samples_between(rays: Rays, edges: Tensor, space: Space) -> Samples:
    """One sample in the middle (in s) of each interval of `edges` (…, N + 1)."""
    depth = space.depth_of((edges[..., 1:] + edges[..., :-1]) / 2)
    ends = space.depth_of(edges)
    distance = (ends[..., 1:] - ends[..., :-1]) * (rays.norms[..., None] / space.unit)
    return Samples(rays.at(depth), depth, distance)
