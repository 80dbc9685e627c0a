"""Where a photo is in focus: there one ray a pixel, without a lens, does instead of many."""

from __future__ import annotations

import torch
from torch import Tensor

from dofnerf.optics import LearnedLens
from dofnerf.train.lens_search import SmallView

_IN_FOCUS = 1.2  # pixels of blur radius, in the photo


@torch.no_grad()
def in_focus_mask(view: SmallView, lens: LearnedLens, photo: int) -> Tensor:
    """(h, w) uint8: 1 where the photo is in focus and the disc of no blurred neighbour reaches."""
    radius = (lens.aperture[photo] * view.scale * (lens.focus_disparity[photo] - view.disparity)).abs()
    blurred = radius > _IN_FOCUS * view.scale
    reached = blurred
    for far in range(1, int(radius.max()) + 1):
        sends = (blurred & (radius >= far)).to(radius)[None, None]
        reached = reached | (torch.nn.functional.max_pool2d(sends, 2 * far + 1, stride=1, padding=far)[0, 0] > 0)
    return (~reached).to(torch.uint8)
