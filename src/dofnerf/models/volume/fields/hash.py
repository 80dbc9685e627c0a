"""The fast field: a multiresolution hash grid of features (Müller et al. 2022) and a tiny network.

**Encoding.** Level l is a grid of `resolution` cells along each side of the unit cube. Its corners are numbered row by
row where they fit into the level's part of the table, otherwise by hash (x ⊕ y·2654435761 ⊕ z·805459861) mod 2^n, with
collisions that training resolves. A point's features are interpolated trilinearly.

**Network.** Two perceptrons with one hidden layer each:

    f = A₂ relu(A₁ x + a₁) + a₂             16 features of the encoded point x; the first is the log density
    y = B₂ relu(B₁ f + b₁ + v) + b₂         colour before its sigmoid; v is what the ray's direction adds, once per ray

So narrow a network is bound by memory if each layer is written out for all samples. hash_cpu.py, the numba version of
both, computes all layers for a few samples at a time. The functions here are the specification, and used on CUDA.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from dofnerf.models.volume.fields import FieldKind, VolumetricField, bright

Backend = Literal["auto", "reference", "cpu"]
FEATURES = 16
PRIME_Y, PRIME_Z = 2654435761, 805459861
_LARGEST = 15.0  # log density; more is not needed for any surface, and its gradient would dominate all others


@dataclass(frozen=True)
class Grid:
    """`levels` resolutions from `base` to `finest` cells per side in equal ratios; `features` numbers per corner; at
    most 2^`log2_size` corners per level."""

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
        """Cells per side, coarse to fine."""
        ratio = math.log(self.finest / self.base) / max(self.levels - 1, 1)
        return [round(self.base * math.exp(ratio * level)) for level in range(self.levels)]

    @property
    def sizes(self) -> list[int]:
        """Rows of the table for each level."""
        return [min((resolution + 1) ** 3, 1 << self.log2_size) for resolution in self.resolutions]

    @property
    def width(self) -> int:
        """Features of a point, of all levels."""
        return self.levels * self.features


@dataclass(frozen=True)
class HashConfig:
    """The size of the grids and of the network."""

    levels: int = 8
    """Grids, from coarse to fine."""
    features: int = 4
    """Numbers per corner of a grid: 2 or 4."""
    log2_size: int = 17
    """Corners per grid, at most, as a power of two."""
    base: int = 16
    """Cells along a side of the coarsest grid."""
    finest: int = 256
    """Cells along a side of the finest: about the width of the photos. Finer grids fit noise where photos are
    blurred."""
    width: int = 32
    """Units of the hidden layers."""
    backend: Backend = "auto"
    """cpu (numba), reference (PyTorch), or auto: numba on the CPU, PyTorch elsewhere."""

    def grid(self) -> Grid:
        """The shape of the encoding, checked."""
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
        once_per_ray = directions.shape == (*shape[:-1], 1, 3) and points.ndim > 1
        if not once_per_ray:
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
        return Layers(*(tensor for layer in linears for tensor in (layer.weight, layer.bias)))


class _Exp(torch.autograd.Function):
    """exp, bounded; its gradient does not vanish at the bound, so density can always decrease again."""

    @staticmethod
    def forward(ctx: Any, raw: Tensor) -> Tensor:
        out = raw.clamp(max=_LARGEST).exp()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * ctx.saved_tensors[0]


def harmonics(directions: Tensor) -> Tensor:
    """Spherical harmonics to degree 2 of unit directions (…, 3) → (…, 9), without constants: a linear layer follows."""
    x, y, z = directions.unbind(-1)
    return torch.stack([torch.ones_like(x), x, y, z, x * y, y * z, x * z, x * x - y * y, 3 * z * z - 1], dim=-1)


def encode(points: Tensor, table: Tensor, grid: Grid, backend: Backend = "auto") -> Tensor:
    """points (N, 3), clamped to [0, 1], and table (Σ sizes, features) → features (N, grid.width)."""
    if points.ndim != 2 or points.shape[1] != 3 or table.shape != (sum(grid.sizes), grid.features):
        raise ValueError(f"points {tuple(points.shape)} or table {tuple(table.shape)} do not fit {grid}")
    native = points.device.type == "cpu" and points.dtype == table.dtype == torch.float32
    if backend == "reference" or (backend == "auto" and not native):
        return _encode(points, table, grid)
    if not native:
        raise ValueError(f"the cpu backend takes float32 on the CPU, found {points.dtype} on {points.device}")
    from dofnerf.models.volume.fields import hash_cpu

    return hash_cpu.encode(points, table, grid)


def _encode(points: Tensor, table: Tensor, grid: Grid) -> Tensor:
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


class Layers(NamedTuple):
    """The weights (out, in) and biases (out,) of the four layers, in order."""

    a1: Tensor
    a1_bias: Tensor
    a2: Tensor
    a2_bias: Tensor
    b1: Tensor
    b1_bias: Tensor
    b2: Tensor
    b2_bias: Tensor


def perceive(encoded: Tensor, seen: Tensor, layers: Layers, backend: Backend = "auto") -> tuple[Tensor, Tensor]:
    """`encoded` (N, C) of R rays with N / R samples each, `seen` (R, W), the v of each ray → raw colour (N, 3), raw
    density (N,)."""
    if len(seen) == 0 or len(encoded) % len(seen):
        if len(encoded):
            raise ValueError(f"{len(encoded)} samples do not divide among {len(seen)} rays")
        backend = "reference"
    tensors = (encoded, seen, *layers)
    native = all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors)
    if backend == "reference" or (backend == "auto" and not native):
        return _perceive(encoded, seen, layers)
    if not native:
        raise ValueError(f"the cpu backend takes float32 on the CPU, found {encoded.dtype} on {encoded.device}")
    from dofnerf.models.volume.fields import hash_cpu

    return hash_cpu.perceive(encoded, seen, layers)


def _perceive(encoded: Tensor, seen: Tensor, layers: Layers) -> tuple[Tensor, Tensor]:
    features = linear(torch.relu(linear(encoded, layers.a1, layers.a1_bias)), layers.a2, layers.a2_bias)
    per_ray = len(encoded) // max(len(seen), 1)
    mixed = torch.relu(linear(features, layers.b1, layers.b1_bias) + seen.repeat_interleave(per_ray, dim=0))
    return linear(mixed, layers.b2, layers.b2_bias), features[:, 0]


def density_only(encoded: Tensor, layers: Layers) -> Tensor:
    """The raw density (N,) alone."""
    hidden = torch.relu(linear(encoded, layers.a1, layers.a1_bias))
    return hidden @ layers.a2[0] + layers.a2_bias[0]


FIELD = FieldKind("hash", HashConfig, HashField, sampling="density-grid", depth_weight=0.1)
