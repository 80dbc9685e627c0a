"""Hash encoding in plain PyTorch: the specification, and the CUDA path. Gradients by autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from dofnerf.models.volume.fields.hash_encoding import Grid

PRIME_Y, PRIME_Z = 2654435761, 805459861


def encode(points: Tensor, table: Tensor, grid: Grid) -> Tensor:
    """As `hash_encoding.encode`."""
    features, first = [], 0
    for resolution, size in zip(grid.resolutions, grid.sizes, strict=True):
        features.append(_one_level(points.clamp(0, 1), table[first : first + size], resolution))
        first += size
    return torch.cat(features, dim=-1)


def _one_level(points: Tensor, part: Tensor, resolution: int) -> Tensor:
    scaled = points * resolution
    cell = scaled.detach().floor().clamp(max=resolution - 1)
    share = scaled - cell
    x, y, z = cell.long().unbind(-1)
    total: Tensor | float = 0.0
    for corner in range(8):
        dx, dy, dz = corner & 1, corner >> 1 & 1, corner >> 2
        weight = torch.ones_like(share[:, 0])
        for axis, beyond in enumerate((dx, dy, dz)):
            weight = weight * (share[:, axis] if beyond else 1 - share[:, axis])
        total = total + weight[:, None] * part[_address(x + dx, y + dy, z + dz, resolution, len(part))]
    assert isinstance(total, Tensor)
    return total


def _address(x: Tensor, y: Tensor, z: Tensor, resolution: int, size: int) -> Tensor:
    side = resolution + 1
    if side**3 <= size:
        return x + side * (y + side * z)
    return (x ^ (y * PRIME_Y) ^ (z * PRIME_Z)) & (size - 1)
