"""A blur model for splats in one file: the mean of pinhole views from points of the aperture, in any shape."""

from __future__ import annotations

from dataclasses import replace

import torch

from dofnerf.camera import Camera
from dofnerf.models import View
from dofnerf.models.splat.blurs import BlurModel, Shot, register
from dofnerf.models.splat.raster import Drawn, Gaussians, SubAperture, draw
from dofnerf.optics import Lens

POINTS = 12


@register
class ExactBlur(BlurModel):
    name = "exact"

    def picture(self, gaussians: Gaussians, camera: Camera, lens: Lens, shot: Shot) -> View:
        style = replace(shot.style, light=shot.light)
        points = lens.shape.points((), POINTS, torch.Generator().manual_seed(0)).tolist()
        opening = (lens.aperture, lens.focus_disparity)
        views = [draw(gaussians, camera, *opening, SubAperture(x, y, 0.0), style) for x, y in points]
        return shot.finished(Drawn(*(torch.stack(values).mean(0) for values in zip(*views, strict=True))), shot.light)
