"""Multiresolution hash encoding (Müller et al. 2022): points of the unit cube → features, by trilinear interpolation.

Level l is a grid of `resolution` cells along each side, its corners numbered row by row where they fit into the level's
part of the table, and otherwise by hash (x ⊕ y·2654435761 ⊕ z·805459861) mod 2^n: corners may collide, and training
sorts it out. Both backends give the features, and gradients with respect to the table and to the points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dofnerf.models.volume.fields.hash_encoding import reference

Backend = Literal["auto", "reference", "cpu"]


@dataclass(frozen=True)
class Grid:
    """The shape of the grids: `levels` resolutions, `base` to `finest` cells a side in equal ratios, `features` numbers
    a corner, at most 2^`log2_size` corners a level."""

    levels: int
    features: int
    log2_size: int
    base: int
    finest: int

    def __post_init__(self) -> None:
        if self.levels < 1 or self.features not in (2, 4) or not 4 <= self.log2_size <= 24:
            raise ValueError(f"levels must be 1 or more, features 2 or 4 and log2_size 4 to 24, found {self}")
        if not 1 <= self.base <= self.finest <= 1 << 20:
            raise ValueError(f"resolutions must be 1 ≤ base ≤ finest ≤ 2^20, found {self.base} and {self.finest}")

    @property
    def resolutions(self) -> list[int]:
        """Cells a side, coarse to fine."""
        ratio = math.log(self.finest / self.base) / max(self.levels - 1, 1)
        return [round(self.base * math.exp(ratio * level)) for level in range(self.levels)]

    @property
    def sizes(self) -> list[int]:
        """Corners that the table holds for each level."""
        return [min((resolution + 1) ** 3, 1 << self.log2_size) for resolution in self.resolutions]

    @property
    def width(self) -> int:
        """Features of a point."""
        return self.levels * self.features


def encode(points: Tensor, table: Tensor, grid: Grid, backend: Backend = "auto") -> Tensor:
    """points (N, 3) in [0, 1] (those outside count as on the border), table (Σ sizes, features) → (N, levels ·
    features)."""
    if points.ndim != 2 or points.shape[1] != 3 or table.shape != (sum(grid.sizes), grid.features):
        raise ValueError(f"points {tuple(points.shape)} or table {tuple(table.shape)} do not fit {grid}")
    native = points.device.type == "cpu" and points.dtype == table.dtype == torch.float32
    if backend == "reference" or (backend == "auto" and not native):
        return reference.encode(points, table, grid)
    if not native:
        raise ValueError(f"the cpu backend takes float32 on the CPU, found {points.dtype} on {points.device}")
    from dofnerf.models.volume.fields.hash_encoding import cpu

    return cpu.encode(points, table, grid)
