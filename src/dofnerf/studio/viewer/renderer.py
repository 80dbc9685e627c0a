"""Pictures of a scene that the browser cannot draw itself: from a camera and settings to a picture.

What a model sees is drawn once for a camera, in layers of depth, and kept; every lens is put before those layers,
without asking the model again. A coarse picture comes first: of few pixels while the camera moves, of the kept layers
made smaller while only the lens does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models import Model, View
from dofnerf.optics import Lens, scatter, scatter_layers, shape_of, to_display, to_linear
from dofnerf.optics.layers import Layers, split_layers
from dofnerf.optics.light import Curve
from dofnerf.studio.rgbd import RGBD
from dofnerf.studio.shoot import picture_with_depth

LAYERS = 3  # more make no better picture of splats: benchmarks/viewer.py
_KEYS = ("colour", "alpha", "disparity")
MOST_BLUR = 0.1  # radius, in widths of the picture
PEAK = 0.0005  # radius below which a thing counts as in focus, in widths
STRIP = 6000  # rays of a volumetric model after which it is asked whether the picture is still wanted
BUSY = threading.RLock()  # kernels run on all cores, and not on two pictures at once


@dataclass(frozen=True)
class Settings:
    """`radius` of the lens in scene units (0: all in focus), `disparity` of the focus, `rotation` in degrees,
    `exposure` in stops; `shape` is the name of an aperture that is neither round nor a polygon."""

    radius: float = 0.0
    disparity: float = 0.0
    blades: int = 0
    rotation: float = 0.0
    exposure: float = 0.0
    overlay: Literal["none", "focus peaking", "depth"] = "none"
    shape: str = ""

    def lens(self, camera: Camera) -> Lens:
        """The lens before a camera."""
        shape = shape_of(self.shape or None, self.blades, self.rotation)
        return Lens(self.radius * camera.fx, shape=shape, focus_disparity=self.disparity)


@dataclass(frozen=True)
class Drawn:
    """A sharp `view` from a `camera`, and its layers; None where a quick picture is enough."""

    camera: Camera
    view: View
    layers: Layers | None
    picture: RGBD


def draw(
    model: Model, camera: Camera, count: int, wanted: Callable[[], bool] = lambda: True, cut: Curve | None = None
) -> Drawn | None:
    """What the model sees, in `count` layers (1: none); None if it is not `wanted` any more on the way. With `cut`, the
    light in which they are to add up, they are cut out of the sharp picture, for a model whose own add up in another
    (see `Source.flat`)."""
    rows = camera.height if model.is_quick else max(1, STRIP // camera.width)
    views, parts = [], []
    for first in range(0, camera.height, rows):
        if not wanted():
            return None
        strip = replace(camera, cy=camera.cy - first, height=min(rows, camera.height - first))
        with BUSY:
            if count > 1 and cut is None:
                view, part = model.layers(strip, count)
                parts.append(part)
            else:
                view = model.view(strip)
        views.append(view)
    whole = View(*(torch.cat(values).detach() for values in zip(*views, strict=True)))
    layers = Layers(*(torch.cat([getattr(one, key) for one in parts], dim=1) for key in _KEYS)) if parts else None
    picture = picture_with_depth(whole)
    if count > 1 and cut is not None:
        with BUSY:
            layers = split_layers(whole.image, torch.from_numpy(picture.disparity).to(whole.image), count, light=cut)
    return Drawn(camera, whole, layers, picture)


def quick_look(model: Model, camera: Camera, settings: Settings, light: Curve) -> tuple[Drawn, np.ndarray]:
    """A quick picture for a camera that moves: blurred by the model itself, if it can (depth may be blurred then, too), or
    else by scattering one layer."""
    if settings.radius > 0:
        with BUSY:
            view = model.quick_view(camera, settings.lens(camera), light)
        if view is not None:
            drawn = Drawn(camera, view, None, picture_with_depth(view))
            return drawn, finish(view.image, drawn, settings, light)
    sharp = draw(model, camera, 1)
    assert sharp is not None
    return sharp, photograph(sharp, settings, light)


def smaller(drawn: Drawn, times: int) -> Drawn:
    """The same with so many times fewer pixels along each side, by their mean."""
    if times < 2:
        return drawn
    camera, layers = drawn.camera, drawn.layers
    size = max(1, camera.height // times), max(1, camera.width // times)
    view = View(
        _shrunk(drawn.view.image.movedim(-1, 0), size).movedim(0, -1), *(_shrunk(part, size) for part in drawn.view[1:])
    )
    if layers is not None:
        alpha = _shrunk(layers.alpha, size)
        lit = _shrunk((layers.colour * layers.alpha[..., None]).movedim(-1, 0), size).movedim(0, -1)
        layers = Layers(lit / alpha.clamp(min=1e-6)[..., None], alpha, _shrunk(layers.disparity, size))
    return Drawn(camera.resized(size[1], size[0]), view, layers, picture_with_depth(view))


def _shrunk(planes: Tensor, size: tuple[int, int]) -> Tensor:
    """Planes (…, H, W) → (…, *size)."""
    flat = planes.reshape(1, -1, *planes.shape[-2:])
    return torch.nn.functional.adaptive_avg_pool2d(flat, size).reshape(*planes.shape[:-2], *size)


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
    return finish(image, drawn, settings, light)


def finish(image: Tensor, drawn: Drawn, settings: Settings, light: Curve) -> np.ndarray:
    """Exposure and overlay for a picture (H, W, 3) of what was drawn."""
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
