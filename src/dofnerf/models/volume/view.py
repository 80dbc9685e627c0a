"""Camera + optional lens in → image, disparity, alpha out, by marching along rays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models.base import PLAIN, Blur, View
from dofnerf.models.volume.rays import camera_rays
from dofnerf.models.volume.weights import Concentrated, concentrate, concentrate_layers, layer_edges
from dofnerf.optics import scatter, scatter_layers, to_display, to_linear
from dofnerf.optics.layers import Layers
from dofnerf.optics.lens import Lens
from dofnerf.optics.light import Curve

if TYPE_CHECKING:
    from dofnerf.models.volume.model import VolumeModel

CHUNK = 8192  # rays whose samples are in memory at once


@torch.no_grad()
def render_view(
    model: VolumeModel, camera: Camera, lens: Lens | None = None, blur: Blur = PLAIN, chunk: int = CHUNK
) -> View:
    """The picture that a camera takes, sharp or through a lens; memory grows with `chunk`, not with the picture."""
    sharp, layers = march(model, camera, blur.layers if lens else 1, chunk)
    if lens is None:
        image = sharp.colour
    elif layers is not None:
        radius = lens.coc_radius_from_disparity(layers.disparity)
        image = scatter_layers(layers.colour, layers.alpha, radius, lens.shape, blur.light)
    else:
        image = put_lens(sharp.colour, sharp, lens, blur)
    return View(image, sharp.disparity, sharp.alpha)


@torch.no_grad()
def march(model: VolumeModel, camera: Camera, count: int = 1, chunk: int = CHUNK) -> tuple[Concentrated, Layers | None]:
    """All that the field says to a camera, (H, W) of it: concentrated, and for a `count` above 1 in layers of depth
    too."""
    rays = camera_rays(camera, next(model.parameters()).device).reshape(-1)
    edges = layer_edges(model.space.near, model.space.far, count).to(rays.origins.device)
    sharp_parts, layer_parts = [], []
    for first in range(0, len(rays.origins), chunk):
        shaded = model.shade(rays.pick(slice(first, first + chunk)), only_last=True, behind=count > 1)[-1]
        sharp_parts.append(concentrate(shaded))
        if count > 1:
            layer_parts.append(concentrate_layers(shaded, edges))
    size = camera.height, camera.width
    sharp = Concentrated(*(torch.cat(part).unflatten(0, size) for part in zip(*sharp_parts, strict=True)))
    if count == 1:
        return sharp, None
    return sharp, Layers(*(torch.cat(part, dim=1).unflatten(1, size) for part in zip(*layer_parts, strict=True)))


def put_lens(colour: Tensor, at: Concentrated, lens: Lens, blur: Blur = PLAIN) -> Tensor:
    """The paper's concentrate-and-scatter: blur `colour` (H, W, 3) by the depth of `at` (the fine network's, say).
    Gradients reach colour, depth and lens."""
    disparity = 1 / at.depth if blur.blur_by == "depth" else at.disparity
    return scatter(colour, lens.coc_radius_from_disparity(disparity), lens.shape, blur.light)


def average_light(colour: Tensor, light: Curve = 2.2) -> Tensor:
    """Colours (…, K, 3) of K rays through a lens → the pixel's (…, 3), averaged in linear light."""
    return to_display(to_linear(colour, light).mean(-2), light)
