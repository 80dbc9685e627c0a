"""Cameras → rays, as tensors.

A ray is the points origin + depth · direction. Its direction is *not* unit: it has length 1 along the optical axis of
its camera, so the parameter of the ray is depth. `norms`, the lengths of the directions, turn depth into distance, to
which density refers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera


@dataclass(frozen=True)
class Rays:
    """`origins` (…, 3) and `directions` (…, 3) in world coordinates."""

    origins: Tensor
    directions: Tensor

    @property
    def norms(self) -> Tensor:
        """(…) distance per depth, ≥ 1."""
        return self.directions.norm(dim=-1)

    @property
    def view(self) -> Tensor:
        """(…, 3) unit directions."""
        return self.directions / self.norms[..., None]

    @property
    def shape(self) -> torch.Size:
        return self.origins.shape[:-1]

    def at(self, depth: Tensor) -> Tensor:
        """Points (…, N, 3) at `depth` (…, N)."""
        return self.origins[..., None, :] + depth[..., None] * self.directions[..., None, :]

    def reshape(self, *shape: int) -> Rays:
        return Rays(self.origins.reshape(*shape, 3), self.directions.reshape(*shape, 3))

    def pick(self, index: Any) -> Rays:
        """Some of the rays: a slice, a mask or an index tensor, as of a tensor of their shape."""
        return Rays(self.origins[index], self.directions[index])


class CameraStack(NamedTuple):
    """M cameras: `poses` (M, 3, 4) camera to world, `focal` (M, 2) and `centre` (M, 2) in pixels as (x, y)."""

    poses: Tensor
    focal: Tensor
    centre: Tensor

    @property
    def axes(self) -> Tensor:
        """(M, 3, 2) the cameras' right and up in world coordinates."""
        return self.poses[:, :, :2]


def stack_cameras(cameras: Sequence[Camera], device: torch.device | str = "cpu") -> CameraStack:
    """Cameras → tensors, float32."""

    def tensor(rows: list) -> Tensor:
        return torch.from_numpy(np.asarray(rows, dtype=np.float32)).to(device)

    return CameraStack(
        tensor([c.camera_to_world for c in cameras]),
        tensor([(c.fx, c.fy) for c in cameras]),
        tensor([(c.cx, c.cy) for c in cameras]),
    )


def pixel_rays(cameras: CameraStack, photo: Tensor, pixels: Tensor) -> Rays:
    """Rays (…) of `pixels` (…, 2), as (column, row) with centres at .5, each of its own `photo` (…)."""
    slope = (pixels - cameras.centre[photo]) / cameras.focal[photo]
    local = torch.stack([slope[..., 0], -slope[..., 1], -torch.ones_like(slope[..., 0])], dim=-1)
    pose = cameras.poses[photo]
    return Rays(pose[..., 3].expand(local.shape), (pose[..., :3] @ local[..., None])[..., 0])


def camera_rays(camera: Camera, device: torch.device | str = "cpu") -> Rays:
    """One ray through each pixel's centre, (H, W)."""
    cameras = stack_cameras([camera], device)
    pixels = pixel_centres(camera.height, camera.width, device)
    return pixel_rays(cameras, torch.zeros(pixels.shape[:2], dtype=torch.long, device=device), pixels)


def pixel_centres(height: int, width: int, device: torch.device | str = "cpu") -> Tensor:
    """(H, W, 2) of (column, row)."""
    row, column = torch.meshgrid(torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij")
    return torch.stack([column, row], dim=-1) + 0.5


def lens_rays(
    cameras: CameraStack,
    photo: Tensor,
    pixels: Tensor,
    points: Tensor,
    aperture: Tensor | float,
    focus_disparity: Tensor | float,
) -> Rays:
    """Exact thin lens: rays (…, K) of `pixels` (…, 2) of `photo` (…) through the lens `points` (…, K, 2) of
    `Shape.points`.

    Every ray passes the point of the focal plane that the pixel images. With p the point of the lens, relative to its
    centre, and d the pixel's own direction (unit depth), the ray must pass d · focus_depth:

        origin = centre + p            direction = d − p · focus_disparity            p = aperture / focal · (x, y)

    The lens lies in the plane of depth 0, so the parameter of such a ray is depth, too. A point at `depth` spreads over
    aperture · |focus_disparity − 1/depth| pixels, also where fx ≠ fy. `aperture` and `focus_disparity` are numbers or
    (…): one per pixel. Gradients reach both.
    """
    central = pixel_rays(cameras, photo, pixels)
    opening = torch.as_tensor(aperture, dtype=points.dtype, device=points.device)[..., None, None]
    focus = torch.as_tensor(focus_disparity, dtype=points.dtype, device=points.device)[..., None, None]
    on_lens = points * opening / cameras.focal[photo][..., None, :]
    shift = on_lens @ cameras.axes[photo].transpose(-1, -2)
    return Rays(central.origins[..., None, :] + shift, central.directions[..., None, :] - shift * focus)
