"""The picture of blur model "gaussian" through a disc, to look at: as many pixels and sub-apertures as blur needs.

What is out of focus is drawn with fewer pixels, what is nearly in focus through fewer sub-apertures
(raster/coarse_cpu.py). Here is how many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models.splat.blurs import GaussianBlur, Shot, sub_apertures
from dofnerf.models.splat.gaussians import LOW_PASS, Gaussians, Group, Seen, SubAperture
from dofnerf.models.splat.raster import choose_backend, rasterise_coarse
from dofnerf.optics import to_display, to_linear
from dofnerf.optics.lens import Lens

_SMALL = 250_000  # pixels: such a picture is drawn in full, which takes no longer
_HALVINGS = 3  # of the size, at the most
_NARROWEST = 1.1  # deviation of a Gaussian in a coarse picture, in its pixels
_IN_FOCUS = 3.0  # px: blur radius up to which everything is drawn in full, whatever its size
_FINE = 0.25  # of the Gaussians have a lesser deviation than the one that counts as the scene's finest
_ALIKE = ((0.5, 1), (2.0, 3), (4.0, 6))  # up to a blur radius of so many finest deviations, so many views are enough


@torch.no_grad()
def quick_picture(gaussians: Gaussians, camera: Camera, lens: Lens, shot: Shot) -> Tensor:
    """(H, W, 3) in display values, without gradients. In full, if it is small or not on the CPU."""
    small = camera.width * camera.height <= _SMALL or not len(gaussians.means)
    if small or choose_backend(gaussians.means) != "cpu":
        return GaussianBlur().picture(gaussians, camera, lens, shot).image
    parts = sub_apertures(shot.sub_apertures, shot.turn)
    views = {part.radius: shot.project(gaussians, camera, lens, part.radius) for part in parts}
    widest = max(views)
    table = views[widest].table[views[widest].reach > 0].double()
    blur = lens.coc_radius_from_disparity(table[:, 9]).abs()
    finest = _finest(table, widest * blur)
    # A Gaussian's variance is its own and that of the sub-aperture's disc.
    limits = [
        max(_IN_FOCUS, 2 / widest * math.sqrt(max((_NARROWEST * 2**k) ** 2 - finest**2, 0.0)))
        for k in range(1, _HALVINGS + 1)
    ]
    most = float(blur.max()) if len(blur) else 0.0
    count = next((count for ratio, count in _ALIKE if min(limits[0], most) <= ratio * finest), len(parts))
    if count == len(parts) and most < limits[1]:  # there is little to save
        return GaussianBlur().picture(gaussians, camera, lens, shot).image
    groups = []
    for members in _grouped(parts, count):
        shared = _merged(members)
        if shared.radius not in views:
            views[shared.radius] = shot.project(gaussians, camera, lens, shared.radius)
        one, *others = (Seen(part, views[part.radius]) for part in (shared, *members))
        groups.append(Group(one, others))
    opening, size = (float(lens.aperture), float(lens.focus_disparity)), (camera.width, camera.height)
    light = rasterise_coarse(groups, opening, limits, size, to_linear(shot.background, shot.light))
    return to_display(light, shot.light)


def _finest(table: Tensor, radius: Tensor) -> float:
    """Of the sharp Gaussians, in pixels: the quantile `_FINE` of their deviations along the shorter axis. `table` (n,
    10) holds them blurred by discs of `radius` (n,)."""
    if not len(table):
        return math.sqrt(LOW_PASS)
    a, b, c = table[:, 2:5].unbind(-1)
    longest = (a + c) / 2 + torch.hypot((a - c) / 2, b)  # axis of the inverse covariance
    variance = 1 / longest - radius.square() / 4
    return math.sqrt(max(float(variance.quantile(_FINE)), LOW_PASS))


def _grouped(parts: Sequence[SubAperture], count: int) -> list[list[SubAperture]]:
    """In `count` groups of neighbours, by angle."""
    turns = [(math.atan2(part.y, part.x) / (2 * math.pi) + 1 / len(parts)) % 1 for part in parts]
    ordered = [part for _, part in sorted(zip(turns, parts, strict=True))]
    size = -(-len(parts) // count)
    return [ordered[first : first + size] for first in range(0, len(parts), size)]


def _merged(parts: Sequence[SubAperture]) -> SubAperture:
    """One with the centroid and the mean variance of all."""
    if len(parts) == 1:
        return parts[0]
    x, y = sum(part.x for part in parts) / len(parts), sum(part.y for part in parts) / len(parts)
    squares = [part.radius**2 + 2 * ((part.x - x) ** 2 + (part.y - y) ** 2) for part in parts]
    # Rounded, so that groups of equal shape have one radius and one projection.
    return SubAperture(x, y, round(math.sqrt(sum(squares) / len(parts)), 6))
