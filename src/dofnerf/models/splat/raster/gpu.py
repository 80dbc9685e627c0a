"""Rasterising on CUDA by gsplat's kernels (extra `cuda`); projection and attribution are reference.py's.

gsplat skips a Gaussian at pixels where its alpha is below 1/255. A sharp scene has few such Gaussians, a strongly
blurred one consists of them: where more than a share `LOST` of the light would be lost, reference.py draws instead.
"""

from __future__ import annotations

import importlib.util
from functools import cache

import torch

from dofnerf.models.splat.gaussians import FAINTEST, LOST, Drawn, Projected
from dofnerf.models.splat.raster import reference
from dofnerf.models.splat.raster.reference import attribute, project

__all__ = ["attribute", "available", "lost", "project", "rasterise"]

_TILE = 16


@cache
def available() -> bool:
    """Is gsplat installed?"""
    return importlib.util.find_spec("gsplat") is not None


def rasterise(projected: Projected, width: int, height: int) -> Drawn:
    """As `raster.rasterise`, except for what gsplat skips: see above."""
    if lost(projected) > LOST:
        return reference.rasterise(projected, width, height)
    import gsplat

    table = projected.table[None]
    a, b, c = table.detach()[..., 2:5].unbind(-1)
    half = (projected.reach[None] / (a * c - b * b).clamp(min=1e-30))[..., None] * torch.stack([c, a], dim=-1)
    radii = half.clamp(min=0).sqrt().ceil().to(torch.int32)  # 0 where nothing is drawn
    across, down = -(-width // _TILE), -(-height // _TILE)
    _, pairs, order = gsplat.isect_tiles(table[..., :2].detach(), radii, projected.depth[None], _TILE, across, down)
    offsets = gsplat.isect_offset_encode(pairs, 1, across, down)
    parts = (table[..., :2], table[..., 2:5], table[..., 6:10], table[..., 5])
    values, alpha = gsplat.rasterize_to_pixels(*parts, width, height, _TILE, offsets, order)
    return Drawn(values[0, ..., :3], values[0, ..., 3], alpha[0, ..., 0])


@torch.no_grad()
def lost(projected: Projected) -> float:
    """The share of all light that is lost if each Gaussian ends where its alpha is 1/255."""
    drawn = projected.reach > 0
    a, b, c, opacity = projected.table[drawn, 2:6].unbind(-1)
    light = opacity / (a * c - b * b).clamp(min=1e-30).sqrt()
    return float((light * (FAINTEST / opacity).clamp(max=1)).sum() / light.sum().clamp(min=1e-30))
