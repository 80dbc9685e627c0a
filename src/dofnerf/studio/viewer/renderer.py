"""Pictures of a scene that the browser cannot draw itself: from a camera and settings to a picture.

What a model sees is drawn once for a camera, in layers of depth, and kept; every lens is put before those layers,
without asking the model again.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models import Model, View
from dofnerf.optics import Lens, Shape, scatter, scatter_layers, shape_of, to_display, to_linear
from dofnerf.optics.layers import Layers, split_layers
from dofnerf.optics.light import Curve
from dofnerf.studio.rgbd import RGBD
from dofnerf.studio.shoot import picture_with_depth

LAYERS = 3  # more make no better picture of splats: benchmarks/viewer.py
MOST_BLUR = 0.1  # radius, in widths of the picture
PEAK = 0.0005  # radius below which a thing counts as in focus, in widths
BUSY = threading.RLock()  # kernels run on all cores, and not on two pictures at once


@dataclass(frozen=True)
class Settings:
    """`radius` of the lens in scene units (0: all in focus), `disparity` of the focus, `rotation` in degrees,
    `exposure` in stops; `shape` is that of an aperture that is neither round nor a polygon."""

    radius: float = 0.0
    disparity: float = 0.0
    blades: int = 0
    rotation: float = 0.0
    exposure: float = 0.0
    overlay: Literal["none", "focus peaking", "depth"] = "none"
    shape: Shape | None = None

    def lens(self, camera: Camera) -> Lens:
        """The lens before a camera."""
        shape = shape_of(None, self.blades, self.rotation)
        if self.shape is not None:
            shape = replace(self.shape, rotation=math.radians(self.rotation))
        return Lens(self.radius * camera.fx, shape=shape, focus_disparity=self.disparity)


@dataclass(frozen=True)
class Drawn:
    """A sharp `view` from a `camera`, its `layers` (None for one), and the view as a picture with depth."""

    camera: Camera
    view: View
    layers: Layers | None
    picture: RGBD


def draw(model: Model, camera: Camera, count: int, cut: Curve | None = None) -> Drawn:
    """What the model sees, in `count` layers (1: none). With `cut`, the light in which they are to add up, they are cut
    out of the sharp picture, for a model whose own add up in another (see `Source.flat`)."""
    with BUSY:
        if count > 1 and cut is None:
            view, layers = model.layers(camera, count)
            return Drawn(camera, view, layers, picture_with_depth(view))
        view = model.view(camera)
        picture = picture_with_depth(view)
        if count == 1 or cut is None:
            return Drawn(camera, view, None, picture)
        disparity = torch.from_numpy(picture.disparity).to(view.image)
        return Drawn(camera, view, split_layers(view.image, disparity, count, light=cut), picture)


def photograph(drawn: Drawn, settings: Settings, light: Curve) -> np.ndarray:
    """The picture (H, W, 3) through the lens of the settings, with its exposure and overlay, display values."""
    camera, view = drawn.camera, drawn.view
    lens = settings.lens(camera)
    with BUSY:
        if lens.aperture == 0:
            image = view.image
        elif drawn.layers is None:
            radius = lens.coc_radius_from_disparity(torch.from_numpy(drawn.picture.disparity).to(view.image))
            image = scatter(view.image, _bounded(radius, camera), lens.shape, light)
        else:
            radius = _bounded(lens.coc_radius_from_disparity(drawn.layers.disparity), camera)
            image = scatter_layers(drawn.layers.colour, drawn.layers.alpha, radius, lens.shape, light)
    if settings.exposure:
        image = to_display(to_linear(image, light) * 2.0**settings.exposure, light)
    shown = image.clamp(0, 1).cpu().numpy()
    if settings.overlay == "depth":
        return depth_colours(drawn.picture)
    if settings.overlay == "focus peaking":
        return peaked(shown, drawn.picture, settings.radius * drawn.camera.fx, settings.disparity)
    return shown


def _bounded(radius: Tensor, camera: Camera) -> Tensor:
    most = MOST_BLUR * camera.width
    return radius.clamp(-most, most)


def depth_colours(picture: RGBD) -> np.ndarray:
    """Near is warm, far is cold, (H, W, 3)."""
    from matplotlib import colormaps

    if picture.holes.all():
        return np.zeros((*picture.disparity.shape, 3), np.float32)
    far, near = picture.disparity_range()
    share = np.clip((picture.disparity - far) / max(near - far, 1e-9), 0, 1)
    return colormaps["turbo"](share)[..., :3].astype(np.float32)


def peaked(shown: np.ndarray, picture: RGBD, aperture: float, disparity: float) -> np.ndarray:
    """The picture, a little greyed, with the edges of what is in focus in red: sharp to half a thousandth of its
    width."""
    grey = picture.image.mean(-1)
    edges = np.hypot(*np.gradient(grey)) if min(grey.shape) > 1 else np.zeros_like(grey)
    blur = aperture * np.abs(disparity - picture.disparity)
    strength = np.clip(edges / 0.06 - 0.5, 0, 1) * np.clip(2 - blur / (PEAK * grey.shape[1]), 0, 1)
    quiet = 0.6 * shown + 0.4 * shown.mean(-1, keepdims=True)
    return quiet + strength[..., None] * (np.array([1.0, 0.15, 0.1], np.float32) - quiet)
