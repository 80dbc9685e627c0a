"""Take a picture of a model through a lens, in linear light.

The exact lens is the mean of sharp views from points all over it. A view from the lens's edge is that of a camera moved
there, whose principal point moves so that the focal plane stays where it was: any model that shows views can be shot
so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models import Blur, Model, View
from dofnerf.optics.lens import Lens
from dofnerf.optics.light import Curve, to_linear
from dofnerf.optics.shapes import Shape
from dofnerf.studio.rgbd import RGBD
from dofnerf.studio.virtual_lens import VirtualLens

SEEN = 0.5  # alpha below which a pixel has no depth to focus on
FAINT = 0.02  # alpha below which there is nothing: a silhouette's thin edge belongs to the thing, not to infinity


class Opening(NamedTuple):
    """What does not change from view to view: the aperture's shape, the light curve, and how blur is made: `samples`
    views from all over the lens, or else in `layers` of depth."""

    shape: Shape
    light: Curve
    layers: int
    samples: int


def sharp_picture(model: Model, camera: Camera) -> tuple[View, RGBD]:
    """All in focus: as the model shows it, and as a picture with depth to focus on."""
    view = model.view(camera)
    return view, picture_with_depth(view)


def picture_with_depth(view: View) -> RGBD:
    """A sharp view as a picture with depth to focus on; refuses what is not made of numbers."""
    if not bool(torch.isfinite(view.image).all() & torch.isfinite(view.disparity).all()):
        raise ValueError(
            "the picture is not made of numbers: what was trained is damaged, or fell apart; train it again"
        )
    disparity = torch.where(view.alpha < FAINT, 0.0, view.disparity.clamp(min=0))
    image, depths, holes = (part.detach().cpu().numpy() for part in (view.image, disparity, view.alpha < SEEN))
    return RGBD(image, depths, holes)


def photograph(
    model: Model,
    camera: Camera,
    lens: Lens,
    opening: Opening,
    flat: RGBD | None = None,
    tick: Callable[[], None] = lambda: None,
) -> np.ndarray:
    """The picture (H, W, 3) through a lens, in linear light; `tick` is called after each part of the work.

    With `flat`, the sharp picture, quick blur is made from that rather than by the model.
    """
    if opening.samples:
        return exact(model, camera, lens, opening, tick).cpu().numpy()
    if flat is not None:
        virtual = VirtualLens(flat, opening.shape, opening.light, opening.layers)
        light = virtual.shown(virtual.photograph(lens.aperture, lens.focus_disparity), linear=True)
    else:
        view = model.view(camera, lens.with_shape(opening.shape), Blur(opening.layers, opening.light))
        light = to_linear(view.image, opening.light).cpu().numpy()
    tick()
    return light


def exact(model: Model, camera: Camera, lens: Lens, opening: Opening, tick: Callable[[], None]) -> Tensor:
    """The mean light of sharp views from all over the lens; the same points for each call."""
    points = opening.shape.points((1,), opening.samples, torch.Generator().manual_seed(0))[0].tolist()
    total: Tensor | float = 0.0
    for x, y in points:
        total = total + to_linear(model.view(from_point(camera, lens, x, y)).image, opening.light)
        tick()
    return torch.as_tensor(total) / opening.samples


def from_point(camera: Camera, lens: Lens, x: float, y: float) -> Camera:
    """The camera at a point of the lens (x right, y up, rim at 1) that sees the focal plane where the whole lens
    does."""
    right, up = x * lens.aperture / camera.fx, y * lens.aperture / camera.fy
    pose = camera.camera_to_world.copy()
    pose[:, 3] += right * pose[:, 0] + up * pose[:, 1]
    disparity = lens.focus_disparity
    cx, cy = camera.cx + camera.fx * right * disparity, camera.cy - camera.fy * up * disparity
    return replace(camera, camera_to_world=pose, cx=cx, cy=cy)
