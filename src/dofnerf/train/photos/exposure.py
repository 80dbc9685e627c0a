"""Each photo's exposure and white balance: a gain per channel in linear light, with geometric mean 1 over the
photos."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dofnerf.models.data import Setting
from dofnerf.train.photos.base import PhotoQuantity

_START = 0.04  # share of the steps before the first gain is learned: a third of the pinhole stage
_LEAST = 0.04  # of the logarithm of gains, rms: less is what training makes up by itself


@dataclass(frozen=True)
class ExposureConfig:
    """Exposure and white balance of each photo."""

    exposure: bool = False
    """Learn each photo's exposure and white balance, and even them out."""
    exposure_rate: float = 0.05
    """Learning rate (Adam) of the logarithm of a gain; falls to a tenth."""


class PhotoExposure(PhotoQuantity):
    """`log_gain` (M, 3), natural logarithms; red, green, blue."""

    name, Config = "exposure", ExposureConfig
    log_gain: nn.Parameter
    exposure_rate: float

    @classmethod
    def is_on(cls, config: Any) -> bool:
        return config.exposure

    @classmethod
    def make(cls, config: ExposureConfig, setting: Setting) -> PhotoExposure:
        quantity = cls()
        start = torch.tensor(setting.exposures or [1.0] * len(setting.photos)).log()
        quantity.log_gain = nn.Parameter((start - start.mean())[:, None].repeat(1, 3))
        quantity.exposure_rate = config.exposure_rate
        return quantity

    def rate(self, share: float) -> float:
        return self.exposure_rate * 0.1**share if share >= _START else 0.0

    def constrain(self) -> None:
        """All gains together say nothing: the scene could be as much brighter."""
        self.log_gain.data -= self.log_gain.data.mean(0)

    def is_negligible(self) -> bool:
        return float(self.log_gain.detach().square().mean().sqrt()) < _LEAST

    def develop(self, light: Tensor, photo: Tensor, places: Tensor) -> Tensor:
        return light * self.log_gain.exp()[photo]

    def columns(self, setting: Setting) -> dict[str, Sequence[float | str]]:
        gains = self.log_gain.detach().exp()
        stops = self.log_gain.detach().mean(1) / torch.tensor(2.0).log()
        names = ("gain_red", "gain_green", "gain_blue")
        return {"exposure_stops": stops.tolist(), **{name: gains[:, c].tolist() for c, name in enumerate(names)}}

    def values(self) -> dict[str, Tensor]:
        return {"exposure": self.log_gain.mean(1).exp()}

    def summary(self) -> str:
        return ""

    def findings(self) -> str:
        stops = self.log_gain.detach().mean(1) / math.log(2)
        most = float(stops.max() - stops.min())
        return f"exposure differs by up to {most:.1f} stops; evened out" if most > 0 else ""


QUANTITY = PhotoExposure
