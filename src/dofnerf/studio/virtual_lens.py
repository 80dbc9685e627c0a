"""A lens in front of one picture with depth: turn the aperture and the focus, get photographs."""

from __future__ import annotations

import numpy as np
import torch

from dofnerf.optics.layers import Layers, scatter_layers, split_layers
from dofnerf.optics.lens import coc_radius_from_disparity
from dofnerf.optics.light import Curve, to_display, to_linear
from dofnerf.optics.scattering import scatter
from dofnerf.optics.shapes import DISC, Norm, Shape
from dofnerf.studio.rgbd import RGBD


class VirtualLens:
    """What does not change while one focuses: the picture, the shape of the aperture, the light curve, the layers.

    `light` is the curve between display values and linear light. A linear picture needs none until it is shown.
    `layers` is how many to split the picture into, or those of another lens in front of the same picture.
    """

    def __init__(
        self,
        picture: RGBD,
        shape: Shape = DISC,
        light: Curve = 2.2,
        layers: int | Layers | None = 1,
        norm: Norm = "paper",
    ) -> None:
        self.shape, self.norm = shape, norm
        self.light = light
        self.linear = picture.linear
        self.curve: Curve = 1.0 if picture.linear else light
        self.image = torch.from_numpy(picture.image)
        self.disparity = torch.from_numpy(picture.disparity)
        if isinstance(layers, int):
            layers = split_layers(self.image, self.disparity, layers, light=self.curve) if layers > 1 else None
        self.layers = layers

    def photograph(self, aperture: float, focus_disparity: float) -> np.ndarray:
        """The picture (H, W, 3) through this aperture (pixels × scene units), in the same light as it came."""
        if aperture == 0:
            return self.image.numpy()
        if self.layers is None:
            radius = coc_radius_from_disparity(self.disparity, aperture, focus_disparity)
            return scatter(self.image, radius, self.shape, self.curve, self.norm).numpy()
        radius = coc_radius_from_disparity(self.layers.disparity, aperture, focus_disparity)
        return scatter_layers(self.layers.colour, self.layers.alpha, radius, self.shape, self.curve, self.norm).numpy()

    def shown(self, photograph: np.ndarray, linear: bool = False) -> np.ndarray:
        """A photograph in display values, or in linear light for an EXR."""
        if linear == self.linear:
            return photograph
        convert = to_linear if linear else to_display
        return convert(torch.from_numpy(photograph), self.light).numpy()
