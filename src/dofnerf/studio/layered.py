"""A view in layers of depth, ready to be kept: pictures that mean something also where their layer has nothing.

Where a layer is empty, its colour and disparity are continued from around. Nobody sees that in the sharp view, but
filters and compression do not bring black into its edges, and a blurred edge has a depth to be blurred by.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.optics.layers import Layers, split_layers
from dofnerf.optics.light import Curve
from dofnerf.studio.rgbd import RGBD
from dofnerf.studio.shot import picture_with_depth
from dofnerf.studio.subject import Subject

PAGE_LIGHT: Curve = "srgb"  # in which pages add up
_KNOWN = 0.05  # alpha above which a pixel of a layer has a colour and a depth of its own


@dataclass(frozen=True)
class LayeredPicture:
    """`layers`, the farthest first, filled as above: colour (L, H, W, 3) display values, alpha and disparity (L, H, W);
    `sharp` is the picture that they make."""

    sharp: RGBD
    layers: Layers


def layered_picture(subject: Subject, camera: Camera, count: int) -> LayeredPicture:
    """What a camera sees, in `count` layers. Where the subject is `flat`, they are cut out of the sharp picture: layers
    of its own would add up to it as display values only, and whoever lays them upon each other adds light."""
    if subject.flat:
        view = subject.model.view(camera)
        sharp = picture_with_depth(view)
        layers = split_layers(view.image, torch.from_numpy(sharp.disparity).to(view.image), count, light=PAGE_LIGHT)
    else:
        view, layers = subject.model.layers(camera, count)
        sharp = picture_with_depth(view)
    packed = torch.cat([layers.colour, layers.disparity[..., None]], dim=-1)
    filled = torch.stack(
        [fill(values, alpha > _KNOWN) for values, alpha in zip(packed, layers.alpha, strict=True)]
    ).cpu()
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


def to_unit(values: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Numbers → 0 … 1, and the lowest and the highest of them."""
    low, high = float(values.min()), float(values.max())
    return (values - low) / max(high - low, 1e-12), low, high
