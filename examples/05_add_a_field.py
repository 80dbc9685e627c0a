"""Add a volumetric field: sines of the coordinates and a small network, trained on the packaged scene.

    python examples/05_add_a_field.py [SHARE_OF_STEPS]

A run through the command line works the same: DOFNERF_PLUGINS=this-file.py dofnerf train demo --field waves
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dofnerf import scenes
from dofnerf.models.volume import fields
from dofnerf.train import preset, shortened, train


@dataclass(frozen=True)
class WavesConfig:
    """The size of the network; `--help` shows these settings as flags."""

    octaves: int = 7
    """Frequencies, each twice the one before."""
    width: int = 64
    """Units of a layer."""


class Waves(fields.VolumetricField):
    def __init__(self, config: WavesConfig) -> None:
        super().__init__()
        self.register_buffer("scales", torch.pi * 2.0 ** torch.arange(config.octaves))
        sizes = 6 * config.octaves, config.width
        self.trunk = nn.Sequential(nn.Linear(*sizes), nn.ReLU(), nn.Linear(sizes[1], sizes[1]), nn.ReLU())
        self.to_density, self.to_colour = nn.Linear(config.width, 1), nn.Linear(config.width + 3, 3)

    def encode(self, points: Tensor) -> Tensor:
        angles = (points[..., None, :] * self.scales[:, None]).flatten(-2)
        return self.trunk(torch.cat([angles.sin(), angles.cos()], dim=-1))

    def forward(self, points: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.encode(points)
        seen = torch.cat([hidden, directions.expand(points.shape)], dim=-1)
        return fields.bright(self.to_colour(seen)), fields.positive(self.to_density(hidden)[..., 0])

    def density(self, points: Tensor) -> Tensor:
        return fields.positive(self.to_density(self.encode(points))[..., 0])


fields.register(fields.FieldKind("waves", WavesConfig, Waves, sampling="density-grid"))

if __name__ == "__main__":
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    scene = scenes.demo(width=63)
    run = train(scene, shortened(preset("fast", "waves"), share))
    error = (run.render(scene.camera(22)).image - torch.from_numpy(scene.sharp(22))).square().mean()
    print(f"held-out view: {-10 * float(error.log10()):.1f} dB")
