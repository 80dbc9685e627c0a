"""Each photo's focal length: that of a lens changes a little with its focus ("breathing"), and files often give one for
all photos.

It is found where poses are: by bundle adjustment of the starting points, and of places of the scene once there is a
lens. The geometric mean over the photos stays as given, for photos hardly tell it from the depth of the scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dofnerf.camera import Camera, zoomed
from dofnerf.models.data import Setting
from dofnerf.train.photos.base import CameraQuantity


@dataclass(frozen=True)
class FocalConfig:
    """Refinement of the focal lengths."""

    refine_focal: bool = False
    """Refine the focal length of each photo, where that brings renders nearer to pixels that are held back for it."""


class PhotoFocal(CameraQuantity):
    """`log_zoom` (M,): the logarithm of a photo's focal length over the given one."""

    name, Config = "focal", FocalConfig
    log_zoom: Tensor

    @classmethod
    def is_on(cls, config: Any) -> bool:
        return config.refine_focal

    @classmethod
    def make(cls, config: FocalConfig, setting: Setting) -> PhotoFocal:
        quantity = cls()
        quantity.register_buffer("log_zoom", torch.zeros(len(setting.photos)))
        return quantity

    def begin(self, given: Sequence[Camera], adjusted: Sequence[Camera]) -> None:
        self.move(given, adjusted)

    def move(self, given: Sequence[Camera], found: Sequence[Camera]) -> None:
        ratios = torch.tensor([b.fx / a.fx for a, b in zip(given, found, strict=True)], dtype=torch.float64).log()
        ratios = torch.where(ratios.abs() < 1e-9, 0.0, ratios)  # rounding
        self.log_zoom.copy_(ratios - ratios.mean())

    def camera(self, camera: Camera, photo: int) -> Camera:
        return zoomed(camera, float(self.log_zoom[photo].double().exp())) if self.log_zoom.any() else camera

    def columns(self, setting: Setting) -> dict[str, Sequence[float | str]]:
        return {"focal_pixels": setting.focal}

    def values(self) -> dict[str, Tensor]:
        return {"zoom": self.log_zoom.exp()}

    def summary(self) -> str:
        return ""

    def findings(self) -> str:
        most = 100 * float(self.log_zoom.abs().max())
        return f"focal lengths were off by up to {most:.2g} %; refined" if most else ""


QUANTITY = PhotoFocal
