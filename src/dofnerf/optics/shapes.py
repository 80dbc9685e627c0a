"""The shape of the aperture, which is the shape of every blur disc.

A kernel says how the light of one source spreads over targets at distance l (pixels) in direction θ, for blur radius r:

    weight = edge(k(θ)·r − l) / norm(r)

`k` (`reach`) is 1 for a disc; for an n-blade polygon of circumradius 1 it is how far the rim lies in direction θ (the
paper's k_ij). `edge` is the paper's soft step ½ + ½ tanh 4x, saturated at one pixel either side of the rim, x = ±1, and
stretched by 1/tanh 4 (0.07 %) so that it meets 0 and 1 there without a jump. So a source touches nothing beyond k·r + 1
pixels, and is exactly flat within k·r − 1: the fact that makes O(r) scatter exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

RIM = 1.0  # half-width of the soft rim, pixels: the one support cut-off, for every backend
STEEPNESS = 4.0
STRETCH = 1 / math.tanh(STEEPNESS * RIM)


@dataclass(frozen=True)
class Kernel:
    """How light spreads. `blades` 0 is a disc, ≥ 3 a polygon turned by `rotation` radians, counter-clockwise as seen.

    `norm` divides the weights: "paper" by r² + 0.2 (the weights of a disc then sum to 1.9 … 3.5), "unit" by their own
    sum, so that every source spreads exactly the light it has.
    """

    blades: int = 0
    rotation: float = 0.0
    norm: Literal["paper", "unit"] = "paper"

    def __post_init__(self) -> None:
        if self.blades != int(self.blades) or (self.blades != 0 and self.blades < 3):
            raise ValueError(f"blades must be 0 (a disc) or 3 and more, found {self.blades}")
        if self.norm not in ("paper", "unit"):
            raise ValueError(f"norm must be 'paper' or 'unit', found {self.norm!r}")
        if not math.isfinite(self.rotation):
            raise ValueError(f"rotation must be finite, found {self.rotation}")

    def upside_down(self) -> Kernel:
        """The same aperture turned by half."""
        return replace(self, rotation=self.rotation + math.pi)

    @property
    def apothem(self) -> float:
        """The smallest reach: distance from the centre to a blade; 1 for a disc."""
        return math.cos(math.pi / self.blades) if self.blades else 1.0

    def blade_normals(self) -> Tensor:
        """Unit normals of the polygon's sides as (n, 2) of (column, row); (0, 2) for a disc. float64.

        A vertex lies at angle `rotation` from the column axis, and a side's normal half a blade further. Rows count
        down the picture, so a turn that looks counter-clockwise has negative row.
        """
        angle = self.rotation + (torch.arange(self.blades, dtype=torch.float64) + 0.5) * (
            2 * math.pi / max(self.blades, 1)
        )
        return torch.stack([torch.cos(angle), -torch.sin(angle)], dim=-1)


def reach(columns: Tensor, rows: Tensor, kernel: Kernel) -> Tensor:
    """k(θ) for offsets (column, row), any shape: the rim's distance from the centre in that direction, in radii.

    The paper's k_ij is cos(π/n) / cos(m − π/n), m the angle past the last vertex. The denominator times the length of
    the offset is its largest projection on a side's normal, which needs no angle; the paper's arctan and |·| fold left
    on right and break odd or rotated polygons. At the centre, where no direction is, the smallest reach stands.
    """
    if kernel.blades == 0:
        return torch.ones_like(columns)
    normals = kernel.blade_normals().to(columns)
    projection = (columns[..., None] * normals[:, 0] + rows[..., None] * normals[:, 1]).amax(dim=-1)
    length = torch.hypot(columns, rows)
    return torch.where(length > 0, kernel.apothem * length / projection.clamp(min=1e-12), kernel.apothem)


def edge(inside: Tensor) -> Tensor:
    """The soft rim: 0 … 1 for `inside` = k·r − l from −1 to 1 pixel, and beyond exactly 0 and 1.

    Exactly, because rounding of 0 would weigh in where a sharp pixel (1/norm = 5) neighbours a blurred one (1/norm ~
    1/r²).
    """
    soft = 0.5 + 0.5 * STRETCH * torch.tanh(STEEPNESS * inside.clamp(-RIM, RIM))
    return torch.where(inside <= -RIM, 0.0, torch.where(inside >= RIM, 1.0, soft))
