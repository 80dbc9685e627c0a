"""The fast field: a hash grid of features and a tiny network.

Encoded point → one hidden layer → (log density, features); features and the direction's spherical harmonics → one
hidden layer → colour. Nearly all it knows lies in the table, so a sample touches a few hundred numbers where the
paper's network multiplies 600 000.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dofnerf.models.volume.fields.base import FieldKind, VolumetricField, bright
from dofnerf.models.volume.fields.hash_encoding import Backend, Grid, encode
from dofnerf.models.volume.fields.tiny_network import FEATURES, Layers, density_only, perceive

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
    finest: int = 256
    """Cells along a side of the finest: about the width of the photos. More learn noise where photos are blurred."""
    width: int = 32
    """Units of the hidden layers."""
    backend: Backend = "auto"
    """Who computes: numba on the CPU and PyTorch elsewhere (auto), or one of them."""

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
        self.to_features = nn.Linear(width, FEATURES)
        self.mix_features = nn.Linear(FEATURES, width)
        self.mix_direction = nn.Linear(9, width, bias=False)
        self.to_colour = nn.Linear(width, 3)

    def forward(self, points: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        shape = points.shape[:-1]
        once_a_ray = (
            directions.ndim == points.ndim > 1 and directions.shape[-2] == 1 and directions.shape[:-2] == shape[:-1]
        )
        if not once_a_ray:
            directions = directions.expand(points.shape)
        seen = self.mix_direction(harmonics(directions.reshape(-1, 3)))
        colour, density = perceive(self._encode(points), seen, self._layers(), self.config.backend)
        return bright(colour).reshape(points.shape), _Exp.apply(density - 1).reshape(shape)

    def density(self, points: Tensor) -> Tensor:
        return _Exp.apply(density_only(self._encode(points), self._layers()) - 1).reshape(points.shape[:-1])

    def _encode(self, points: Tensor) -> Tensor:
        return encode((points.reshape(-1, 3) + 1) / 2, self.table, self.grid, self.config.backend)

    def _layers(self) -> Layers:
        linears = (self.hidden, self.to_features, self.mix_features, self.to_colour)
        return Layers(*(tensor for linear in linears for tensor in (linear.weight, linear.bias)))


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
    """Real spherical harmonics to degree 2 of unit directions (…, 3) → (…, 9), without their constants: a layer
    follows."""
    x, y, z = directions.unbind(-1)
    return torch.stack([torch.ones_like(x), x, y, z, x * y, y * z, x * z, x * x - y * y, 3 * z * z - 1], dim=-1)


FIELD = FieldKind("hash", HashConfig, HashField, sampling="density-grid", depth_weight=0.1)
