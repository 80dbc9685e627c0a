"""A volumetric field in one file: features on three planes, bilinearly interpolated, and a small network."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import grid_sample

from dofnerf.models.volume import fields


@dataclass(frozen=True)
class TriplaneConfig:
    """The size of the planes and of the network."""

    side: int = 64
    """Cells along a side of a plane."""
    features: int = 8
    """Numbers at a corner of a cell."""
    width: int = 32
    """Units of the hidden layer."""


class TriplaneField(fields.VolumetricField):
    def __init__(self, config: TriplaneConfig) -> None:
        super().__init__()
        self.planes = nn.Parameter(0.1 * torch.randn(3, config.features, config.side, config.side))
        self.hidden = nn.Linear(config.features, config.width)
        self.to_density, self.to_colour = nn.Linear(config.width, 1), nn.Linear(config.width + 3, 3)

    def forward(self, points: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.encode(points)
        colour = self.to_colour(torch.cat([hidden, directions.expand(points.shape)], dim=-1))
        return fields.bright(colour), fields.positive(self.to_density(hidden)[..., 0])

    def density(self, points: Tensor) -> Tensor:
        return fields.positive(self.to_density(self.encode(points))[..., 0])

    def encode(self, points: Tensor) -> Tensor:
        """(…, 3) in [−1, 1] → (…, width)."""
        flat = points.reshape(-1, 3)
        places = torch.stack([flat[:, [0, 1]], flat[:, [1, 2]], flat[:, [2, 0]]])[:, None]
        features = grid_sample(self.planes, places, padding_mode="border", align_corners=True)
        return torch.relu(self.hidden(features.sum(0)[:, 0].T)).reshape(*points.shape[:-1], -1)


fields.register(fields.FieldKind("triplane", TriplaneConfig, TriplaneField, sampling="density-grid"))
