"""The exact thin lens: rays from points of the lens through the point of the focal plane that a pixel images.

The lens lies in the plane of depth 0, so a ray that leaves it aside still has depth as its parameter. With p the point
of the lens, seen from its centre, and d the pixel's own direction (unit depth), the ray must pass d · focus_depth:

    origin = centre + p            direction = d − p · focus_disparity            p = aperture / focal · (x, y)

Linear in both lens parameters and fine at infinity (focus_disparity 0). A point at `depth` then spreads over
aperture · |focus_disparity − 1/depth| pixels: the same `aperture` and the same disc as everywhere, also where fx ≠ fy.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dofnerf.models.volume.rays.cameras import CameraStack, Rays, pixel_rays


def lens_rays(
    cameras: CameraStack,
    photo: Tensor,
    pixels: Tensor,
    points: Tensor,
    aperture: Tensor | float,
    focus_disparity: Tensor | float,
) -> Rays:
    """Rays (…, K) for `pixels` (…, 2) of `photo` (…) through the `points` (…, K, 2) of `Shape.points` on the lens.

    `aperture` and `focus_disparity` are numbers or (…): one per pixel. Gradients reach both.
    """
    central = pixel_rays(cameras, photo, pixels)
    opening = torch.as_tensor(aperture, dtype=points.dtype, device=points.device)[..., None, None]
    focus = torch.as_tensor(focus_disparity, dtype=points.dtype, device=points.device)[..., None, None]
    on_lens = points * opening / cameras.focal[photo][..., None, :]
    shift = on_lens @ cameras.axes[photo].transpose(-1, -2)
    return Rays(central.origins[..., None, :] + shift, central.directions[..., None, :] - shift * focus)
