"""A volume through a lens by many rays a pixel: slow, and right at every occlusion."""

from __future__ import annotations

import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models.volume import VolumeModel, concentrate
from dofnerf.models.volume.rays import lens_rays, pixel_centres, stack_cameras
from dofnerf.models.volume.weights import average_light
from dofnerf.optics import Lens

CHUNK = 8192  # rays at once


@torch.no_grad()
def render_exact(
    model: VolumeModel, camera: Camera, lens: Lens, points: int = 64, generator: torch.Generator | None = None
) -> Tensor:
    """The image (H, W, 3), the mean light of rays from `points` points of the lens."""
    pixels, cameras = pixel_centres(camera.height, camera.width).reshape(-1, 2), stack_cameras([camera])
    rows = []
    for part in pixels.split(max(1, CHUNK // points)):
        on_lens = lens.shape.points((len(part),), points, generator)
        photo = torch.zeros(len(part), dtype=torch.long)
        rays = lens_rays(cameras, photo, part, on_lens, lens.aperture, lens.focus_disparity)
        rows.append(average_light(concentrate(model.shade(rays, only_last=True)[-1]).colour))
    return torch.cat(rows).reshape(camera.height, camera.width, 3)
