"""Cameras → rays, as plain tensors.

A ray is the points origin + depth · direction. Its direction is *not* unit: it has length 1 along the optical axis of
its camera, so the number along the ray *is* depth. `norms`, the lengths of the directions, turn steps of depth into
distance, which is what density is about.
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
    """`origins` (…, 3) and `directions` (…, 3) in world coordinates; a point at `depth` is origin + depth ·
    direction."""

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
    """Many cameras as tensors: `poses` (M, 3, 4) camera to world, `focal` (M, 2) and `centre` (M, 2) in pixels as (x,
    y)."""

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
    """The rays of `pixels` (…, 2), in pixels as (column, row) with centres at .5, each of its own photo (…) → Rays
    (…)."""
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
