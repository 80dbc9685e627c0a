"""The fast field: a hash grid of features and a tiny network.

Encoded point → one hidden layer → (log density, features); features and the direction's spherical harmonics → one hidden layer
→ colour. Nearly all it knows lies in the table, so a sample touches a few hundred numbers where the paper's network multiplies
600 000.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dofnerf.fields.base import FieldKind, VolumetricField
from dofnerf.fields.hash_encoding import Backend, Grid, encode

_LARGEST = 15.0  # exp beyond this is more than any surface needs, and its gradient would drown all others


@dataclass(frozen=True)
class HashConfig:
    """The size of the grids and of the network."""

    levels: int = 8
    """Grids, from coarse to fine."""
    features: int = 4
    """Numbers at a corner of a grid: 2 or 4."""
    log2_size: int = 17
    """Corners a grid, at most, as a power of two."""
    base: int = 16
    """Cells along a side of the coarsest grid."""
    finest: int = 512
    """Cells along a side of the finest."""
    width: int = 32
    """Units of the hidden layers."""
    backend: Backend = "auto"
    """Who encodes: numba on the CPU, PyTorch elsewhere."""

    def grid(self) -> Grid:
        """The encoding's part of it, checked."""
        return Grid(self.levels, self.features, self.log2_size, self.base, self.finest)


class HashField(VolumetricField):
    """points, directions → colour, density."""

    def __init__(self, config: HashConfig) -> None:
        super().__init__()
        self.config = config
        self.grid = config.grid()
        self.table = nn.Parameter((torch.rand(sum(self.grid.sizes), self.grid.features) * 2 - 1) * 1e-2)
        width = config.width
        self.hidden = nn.Linear(self.grid.width, width)
        self.to_features = nn.Linear(width, 16)
        self.mix_features = nn.Linear(16, width)
        self.mix_direction = nn.Linear(9, width, bias=False)
        self.to_colour = nn.Linear(width, 3)

    def forward(self, points: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        features = self._features(points)
        seen = self.mix_direction(harmonics(directions))
        mixed = torch.relu(self.mix_features(features) + seen)
        return torch.sigmoid(self.to_colour(mixed)), _Exp.apply(features[..., 0] - 1)

    def density(self, points: Tensor) -> Tensor:
        return _Exp.apply(self._features(points)[..., 0] - 1)

    def _features(self, points: Tensor) -> Tensor:
        encoded = encode((points.reshape(-1, 3) + 1) / 2, self.table, self.grid, self.config.backend)
        return self.to_features(torch.relu(self.hidden(encoded))).reshape(*points.shape[:-1], 16)


class _Exp(torch.autograd.Function):
    """exp, bounded, whose gradient does not vanish at the bound: density can always come down again."""

    @staticmethod
    def forward(ctx: Any, raw: Tensor) -> Tensor:
        out = raw.clamp(max=_LARGEST).exp()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * ctx.saved_tensors[0]


def harmonics(directions: Tensor) -> Tensor:
    """Real spherical harmonics to degree 2 of unit directions (…, 3) → (…, 9), without their constants: a layer follows."""
    x, y, z = directions.unbind(-1)
    return torch.stack([torch.ones_like(x), x, y, z, x * y, y * z, x * z, x * x - y * y, 3 * z * z - 1], dim=-1)


FIELD = FieldKind("hash", HashConfig, HashField, sampling="density-grid")
