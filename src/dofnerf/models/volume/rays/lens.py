"""The exact thin lens: rays from points of the lens through the point of the focal plane that a pixel images.

The lens lies in the plane of depth 0, so a ray that leaves it aside still has depth as its parameter. With p the point
of the lens, seen from its centre, and d the pixel's own direction (unit depth), the ray must pass d · focus_depth:

    origin = centre + p            direction = d − p · focus_disparity            p = aperture / focal · (x, y)

Linear in both lens parameters and fine at infinity (focus_disparity 0). A point at `depth` then spreads over
aperture · |focus_disparity − 1/depth| pixels: the same `aperture` and the same disc as everywhere, also where fx ≠ fy.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dofnerf.models.volume.rays.cameras import CameraStack, Rays, pixel_rays

_GOLDEN = (math.sqrt(5) - 1) / 2


def lens_rays(
    cameras: CameraStack,
    photo: Tensor,
    pixels: Tensor,
    points: Tensor,
    aperture: Tensor | float,
    focus_disparity: Tensor | float,
) -> Rays:
    """Rays (…, K) for `pixels` (…, 2) of `photo` (…) through the lens `points` (…, K, 2) of `lens_points`.

    `aperture` and `focus_disparity` are numbers or (…): one per pixel. Gradients reach both.
    """
    central = pixel_rays(cameras, photo, pixels)
    opening = torch.as_tensor(aperture, dtype=points.dtype, device=points.device)[..., None, None]
    focus = torch.as_tensor(focus_disparity, dtype=points.dtype, device=points.device)[..., None, None]
    on_lens = points * opening / cameras.focal[photo][..., None, :]
    shift = on_lens @ cameras.axes[photo].transpose(-1, -2)
    return Rays(central.origins[..., None, :] + shift, central.directions[..., None, :] - shift * focus)


def lens_points(
    shape: tuple[int, ...], count: int, blades: int = 0, rotation: float = 0.0, generator: torch.Generator | None = None
) -> Tensor:
    """(*shape, count, 2) points, x right and y up, spread over a lens of radius 1: a disc, or a polygon turned by
    `rotation`.

    Each set is stratified: one point in each of `count` rings of equal area, a golden section of a turn apart, all
    turned by a random angle. Any function's mean over such a set has the mean over the lens as its expectation.
    """
    device = generator.device if generator is not None else None
    ring = (torch.arange(count, device=device) + torch.rand(*shape, count, generator=generator, device=device)) / count
    start = torch.rand(*shape, 1, generator=generator, device=device)
    turn = (torch.arange(count, device=device) * _GOLDEN + start) % 1
    return ring.sqrt()[..., None] * _rim(turn, blades, rotation)


def _rim(turn: Tensor, blades: int, rotation: float) -> Tensor:
    """The point (…, 2) of the rim after `turn` (…) of its length, counter-clockwise from the vertex at `rotation`."""
    if not blades:
        return torch.stack([torch.cos(2 * math.pi * turn), torch.sin(2 * math.pi * turn)], dim=-1)
    side = (turn * blades).floor()
    along = (turn * blades - side)[..., None]

    def vertex(number: Tensor) -> Tensor:
        angle = rotation + number * (2 * math.pi / blades)
        return torch.stack([torch.cos(angle), torch.sin(angle)], dim=-1)

    return vertex(side) * (1 - along) + vertex(side + 1) * along
