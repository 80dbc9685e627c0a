"""A quantity that each photo has: how much darker its corners are. One file; nothing else of dofnerf knows it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from dofnerf.train.photos import PhotoQuantity, register


@dataclass(frozen=True)
class VignettingConfig:
    """Corners of photos are darker than their middle."""

    vignetting: bool = False
    """Learn how much darker the corners of each photo are."""
    vignetting_rate: float = 0.1
    """Its learning rate (Adam)."""


@register
class Vignetting(PhotoQuantity):
    name, Config = "vignetting", VignettingConfig

    def __init__(self, count: int, learning_rate: float) -> None:
        super().__init__()
        self.strength = nn.Parameter(torch.zeros(count))
        self.learning_rate = learning_rate

    @classmethod
    def is_on(cls, config):
        return config.vignetting

    @classmethod
    def make(cls, config, setting):
        return cls(len(setting.photos), config.vignetting_rate)

    def rate(self, share):
        return self.learning_rate * 0.1**share

    def develop(self, light, photo, places):
        corner = 2 * (places - 0.5).square().sum(-1)  # 1 in the corners
        return light * torch.exp(-self.strength[photo] * corner)[..., None]

    def constrain(self):
        self.strength.clamp_(min=-1.0, max=3.0)

    def columns(self, setting):
        return {"vignetting": self.strength.tolist()}

    def values(self):
        return {"vignetting": self.strength}
