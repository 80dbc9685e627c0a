"""Take pictures through a lens: of a model, or of one picture with depth; quick or exact.

The exact lens is the mean of sharp views from points all over it. A view from the lens's edge is that of a camera moved
there, whose principal point moves so that the focal plane stays where it was: any model that shows views can be shot
so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models import Blur, Model, View
from dofnerf.optics import Lens, scatter, scatter_layers, to_display, to_linear
from dofnerf.optics.layers import Layers, split_layers
from dofnerf.optics.light import Curve
from dofnerf.optics.shapes import DISC, Norm
from dofnerf.studio.rgbd import RGBD
from dofnerf.studio.source import Source

SEEN = 0.5  # alpha below which a pixel has no depth to focus on
FAINT = 0.02  # alpha below which there is nothing: a silhouette's thin edge belongs to the thing, not to infinity
PAGE_LIGHT: Curve = "srgb"  # in which the layers of pages add up
_KNOWN = 0.05  # alpha above which a pixel of a layer has a colour and a depth of its own


def sharp_picture(model: Model, camera: Camera) -> tuple[View, RGBD]:
    """All in focus: as the model shows it, and as a picture with depth to focus on."""
    view = model.view(camera)
    return view, picture_with_depth(view)


def picture_with_depth(view: View) -> RGBD:
    """A sharp view as a picture with depth to focus on; refuses NaN and infinity."""
    if not bool(torch.isfinite(view.image).all() & torch.isfinite(view.disparity).all()):
        raise ValueError(
            "the picture has NaN or infinite values: the trained model is damaged or diverged; train again"
        )
    disparity = torch.where(view.alpha < FAINT, 0.0, view.disparity.clamp(min=0))
    image, depths, holes = (part.detach().cpu().numpy() for part in (view.image, disparity, view.alpha < SEEN))
    return RGBD(image, depths, holes)


def photograph(
    model: Model, camera: Camera, lens: Lens, blur: Blur, samples: int = 0, flat: RGBD | None = None,
    tick: Callable[[], None] = lambda: None,
) -> np.ndarray:  # fmt: skip
    """The picture (H, W, 3) through a lens, in linear light, by so many `samples` of the exact lens or, for 0, by the
    model's quick `blur`; `tick` is called after each part of the work.

    With `flat`, the sharp picture, quick blur is made from that rather than by the model.
    """
    if samples:
        return exact(model, camera, lens, blur.light, samples, tick).cpu().numpy()
    if flat is not None:
        light = as_shown(flat, through_lens(flat, lens, blur, cut_layers(flat, blur)), blur.light, linear=True)
    else:
        light = to_linear(model.view(camera, lens, blur).image, blur.light).cpu().numpy()
    tick()
    return light


def exact(
    model: Model, camera: Camera, lens: Lens, light: Curve, samples: int, tick: Callable[[], None] = lambda: None
) -> Tensor:
    """The mean light (H, W, 3) of sharp views from all over the lens; the same points for each call."""
    total: Tensor | float = 0.0
    whole: Tensor | float = 0.0
    tangents = torch.from_numpy(camera.tangents()).float()
    shape = DISC if not lens.shape.is_flat else lens.shape
    for point in shape.points((1,), samples, torch.Generator().manual_seed(0))[0]:
        seen = model.light(from_point(camera, lens, *point.tolist()), light)
        share = 1.0 if lens.shape.is_flat else lens.shape.weight(point, tangents)[..., None].to(seen)
        total, whole = total + share * seen, whole + share
        tick()
    return torch.as_tensor(total) / torch.as_tensor(whole).clamp(min=1e-6)


def from_point(camera: Camera, lens: Lens, x: float, y: float) -> Camera:
    """The camera at a point of the lens (x right, y up, rim at 1) that sees the focal plane where the whole lens
    does."""
    right, up = x * lens.aperture / camera.fx, y * lens.aperture / camera.fy
    pose = camera.camera_to_world.copy()
    pose[:, 3] += right * pose[:, 0] + up * pose[:, 1]
    disparity = lens.focus_disparity
    cx, cy = camera.cx + camera.fx * right * disparity, camera.cy - camera.fy * up * disparity
    return replace(camera, camera_to_world=pose, cx=cx, cy=cy)


def cut_layers(picture: RGBD, blur: Blur) -> Layers | None:
    """The layers in which a picture is blurred; None if there is only one."""
    if blur.layers == 1:
        return None
    image, disparity = torch.from_numpy(picture.image), torch.from_numpy(picture.disparity)
    return split_layers(image, disparity, blur.layers, light=_curve(picture, blur.light))


def through_lens(picture: RGBD, lens: Lens, blur: Blur, layers: Layers | None, norm: Norm = "paper") -> np.ndarray:
    """A picture with depth (H, W, 3) through a lens, in the same light as it came; `layers` by `cut_layers`."""
    if lens.aperture == 0:
        return picture.image
    curve = _curve(picture, blur.light)
    if layers is None:
        radius = lens.coc_radius_from_disparity(torch.from_numpy(picture.disparity))
        return scatter(torch.from_numpy(picture.image), radius, lens.shape, curve, norm).numpy()
    radius = lens.coc_radius_from_disparity(layers.disparity)
    return scatter_layers(layers.colour, layers.alpha, radius, lens.shape, curve, norm).numpy()


def as_shown(picture: RGBD, image: np.ndarray, light: Curve, linear: bool = False) -> np.ndarray:
    """`image`, in the light of `picture`, in display values, or in linear light for an EXR."""
    if linear == picture.linear:
        return image
    return (to_linear if linear else to_display)(torch.from_numpy(image), light).numpy()


def _curve(picture: RGBD, light: Curve) -> Curve:
    """A linear picture needs no curve until it is shown."""
    return 1.0 if picture.linear else light


@dataclass(frozen=True)
class LayeredPicture:
    """`layers`, the farthest first: colour (L, H, W, 3) display values, alpha and disparity (L, H, W); `sharp` is the
    picture that they make.

    Where a layer is empty, its colour and disparity are continued from around. The sharp view does not show that, but
    filters and compression bring no black into its edges, and a blurred edge has a depth to be blurred by."""

    sharp: RGBD
    layers: Layers


def layered_picture(source: Source, camera: Camera, count: int) -> LayeredPicture:
    """What a camera sees, in `count` layers. Where the source is `flat`, they are cut out of the sharp picture: layers
    of its own would add up to it as display values only, and compositing adds light."""
    if source.flat:
        view = source.model.view(camera)
        sharp = picture_with_depth(view)
        layers = split_layers(view.image, torch.from_numpy(sharp.disparity).to(view.image), count, light=PAGE_LIGHT)
    else:
        view, layers = source.model.layers(camera, count)
        sharp = picture_with_depth(view)
    packed = torch.cat([layers.colour, layers.disparity[..., None]], dim=-1)
    parts = [fill(values, alpha > _KNOWN) for values, alpha in zip(packed, layers.alpha, strict=True)]
    filled = torch.stack(parts).cpu()
    depths = filled[..., 3].clamp(min=0)
    return LayeredPicture(sharp, Layers(filled[..., :3].contiguous(), layers.alpha.cpu(), depths.contiguous()))


def fill(values: Tensor, known: Tensor) -> Tensor:
    """Values (H, W, C) continued to where they are not `known` (H, W): by the mean of what is known around, on ever
    coarser grids until something is. All zero if nothing is known."""
    planes = values.movedim(-1, 0)[None]
    return _pull(planes * known, known.to(values.dtype)[None, None])[0].movedim(0, -1)


def _pull(planes: Tensor, weight: Tensor) -> Tensor:
    """`planes` (1, C, H, W) times `weight` (1, 1, H, W), 0 or 1 → planes, known everywhere."""
    height, width = weight.shape[-2:]
    if bool((weight > 0).all()) or max(height, width) == 1:
        return planes / weight.clamp(min=1)
    smaller = torch.nn.functional.avg_pool2d(torch.cat([planes, weight], dim=1), 2, ceil_mode=True)
    share = smaller[:, -1:]
    coarse = _pull(torch.where(share > 0, smaller[:, :-1] / share.clamp(min=1e-6), 0.0), (share > 0).to(planes.dtype))
    around = torch.nn.functional.interpolate(coarse, scale_factor=2.0, mode="bilinear", align_corners=False)
    return torch.where(weight > 0, planes, around[..., :height, :width])
