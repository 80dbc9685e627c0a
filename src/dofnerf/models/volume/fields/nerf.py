"""The paper's field: a deep network on the sines of the coordinates (Mildenhall et al. 2020).

x = (sin 2^k p, cos 2^k p) for k < `point_octaves`, and p itself; `depth` layers of `width`, with x concatenated again
half-way; density from the last; colour from its features and the encoded direction by one layer of half the width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dofnerf.models.volume.fields import FieldKind, VolumetricField, bright, positive


@dataclass(frozen=True)
class NerfConfig:
    """The size of the network; the defaults are the paper's."""

    depth: int = 8
    """Layers before density."""
    width: int = 256
    """Units a layer."""
    point_octaves: int = 10
    """Octaves of the encoding of points."""
    direction_octaves: int = 4
    """Octaves of the encoding of directions."""

    def __post_init__(self) -> None:
        if self.depth < 2 or self.width < 2 or self.point_octaves < 0 or self.direction_octaves < 0:
            raise ValueError(f"depth and width must be 2 or more and octaves 0 or more, found {self}")


class NerfField(VolumetricField):
    """points, directions → colour, density."""

    def __init__(self, config: NerfConfig) -> None:
        super().__init__()
        self.config = config
        width, inputs = config.width, 3 + 6 * config.point_octaves
        self.skip = config.depth // 2 + 1  # index of the layer that gets x again: 5 of the paper's eight
        layers = [nn.Linear(inputs, width)]
        for i in range(1, config.depth):
            layers.append(nn.Linear(width + (inputs if i == self.skip else 0), width))
        self.layers = nn.ModuleList(layers)
        self.to_density = nn.Linear(width, 1)
        self.to_feature = nn.Linear(width, width)
        # One layer on (feature, direction), as a sum: the direction is then multiplied once per ray, not per sample.
        self.mix_feature = nn.Linear(width, width // 2)
        self.mix_direction = nn.Linear(3 + 6 * config.direction_octaves, width // 2, bias=False)
        self.to_colour = nn.Linear(width // 2, 3)

    def forward(self, points: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self._trunk(points)
        seen = self.mix_direction(sines(directions, self.config.direction_octaves))
        mixed = torch.relu(self.mix_feature(self.to_feature(hidden)) + seen)
        return bright(self.to_colour(mixed)), positive(self.to_density(hidden)[..., 0])

    def density(self, points: Tensor) -> Tensor:
        return positive(self.to_density(self._trunk(points))[..., 0])

    def _trunk(self, points: Tensor) -> Tensor:
        encoded = sines(points, self.config.point_octaves)
        hidden = encoded
        for i, layer in enumerate(self.layers):
            hidden = torch.relu(layer(torch.cat([encoded, hidden], dim=-1) if i == self.skip else hidden))
        return hidden


def sines(x: Tensor, octaves: int) -> Tensor:
    """(…, 3) → (…, 3 + 6 · octaves): x, and sines and cosines of 2^k x."""
    angles = (x[..., None, :] * 2.0 ** torch.arange(octaves, device=x.device, dtype=x.dtype)[:, None]).flatten(-2)
    return torch.cat([x, torch.sin(angles), torch.cos(angles)], dim=-1)


FIELD = FieldKind("nerf", NerfConfig, NerfField, sampling="coarse-fine")
