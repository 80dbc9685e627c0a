"""Each photo's exposure and white balance: a gain per channel in linear light, with geometric mean 1 over the
photos.

Gains start from the colours of sparse points that several photos see, for a step of training moves the gain of one
photo only a little, and a lens searched for with wrong gains is wrong. Then they are learned with the scene, unless
these colours say that all photos have one exposure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dofnerf.models.data import Setting, TrainingData
from dofnerf.optics import to_linear
from dofnerf.optics.light import Curve
from dofnerf.scenes import Scene
from dofnerf.train.photos.base import PhotoQuantity

_START = 0.04  # share of the steps before the first gain is learned: a third of the pinhole stage
_LEAST = 0.04  # of the logarithm of gains, rms: less is what training makes up by itself
_ACROSS = 96  # pixels of the photos in which points are looked up: blur hardly matters there
_DARK, _BRIGHT = 0.03, 0.95  # display values between which a point's colours tell of a gain
_FEWEST = 20  # sightings of points in a photo, at the least
_ROUNDS, _PRIOR = 20, 1.0  # of reweighting; sightings that say that a photo's gain is as it was given


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

    @torch.no_grad()
    def look(self, scene: Scene, data: TrainingData, light: Curve) -> bool:
        seen = point_colours(scene, data, light)
        if seen is None:
            return False
        more = torch.from_numpy(common_gains(seen - self.log_gain.numpy(force=True)[:, None])).to(self.log_gain)
        if _rms(self.log_gain + more) < _LEAST:
            return True  # to learn gains even for a while, and to undo them then, costs 0.4 dB where photos are sharp
        if _rms(more) >= _LEAST:
            self.log_gain.add_(more)
        return False

    def rate(self, share: float) -> float:
        return self.exposure_rate * 0.1**share if share >= _START else 0.0

    def constrain(self) -> None:
        """All gains together say nothing: the scene could be as much brighter."""
        self.log_gain.data -= self.log_gain.data.mean(0)

    def is_negligible(self) -> bool:
        return _rms(self.log_gain.detach()) < _LEAST

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


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())


def point_colours(scene: Scene, data: TrainingData, light: Curve) -> np.ndarray | None:
    """(M, N, 3): logarithms of the linear light of the scene's N sparse points in the training photos, NaN where a
    photo does not show it, or too dark or too bright. None if a photo shows hardly any."""
    if scene.points is None:
        return None
    found = np.full((len(scene.train), len(scene.points), 3), np.nan)
    (height, width), across = data.size, min(_ACROSS, data.size[1])
    down = max(1, round(height * across / width))
    for k, i in enumerate(scene.train):
        seen = scene.visible(i)
        shown = data.shrunk(k, across, down)
        column, row = (seen.pixels * (across / width, down / height)).astype(int).T
        colour = shown[row.clip(0, down - 1), column.clip(0, across - 1)].cpu()
        fair = ((colour > _DARK) & (colour < _BRIGHT)).all(-1).numpy()
        found[k, seen.ids[fair]] = to_linear(colour, light).log().numpy()[fair]
        if fair.sum() < _FEWEST:
            return None
    return found


def common_gains(logs: np.ndarray) -> np.ndarray:
    """(M, 3) with mean 0: the gains g (logarithms) for which logs (M, N, 3), NaN where unknown, are nearest to
    g + c with a colour c (N, 3) of each point. Least squares, reweighted by a Cauchy distribution squared, since
    points are occluded, shine, or are blurred with what is around them."""
    seen = np.isfinite(logs).all(-1)
    several = seen.sum(0) > 1
    seen, values = seen[:, several], np.nan_to_num(logs[:, several])
    weight, count = seen.astype(float), len(logs)
    gains = np.zeros((count, 3))
    for _ in range(_ROUNDS):
        total = np.maximum(weight.sum(0), 1e-12)
        normal = np.diag(weight.sum(1) + _PRIOR) - (weight / total) @ weight.T  # points eliminated
        mean = (weight[..., None] * values).sum(0) / total[:, None]
        gains = np.linalg.solve(normal, (weight[..., None] * (values - mean)).sum(1))
        points = (weight[..., None] * (values - gains[:, None])).sum(0) / total[:, None]
        left = ((values - gains[:, None] - points) ** 2).mean(-1)
        weight = seen / (1 + left / max(2 * float(np.median(left[seen])), 1e-12)) ** 2
    return gains - gains.mean(0)


QUANTITY = PhotoExposure
