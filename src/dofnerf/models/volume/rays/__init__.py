"""Cameras → rays; the space that fields live in; samples along rays; random rays, patches and rays through a lens."""

from dofnerf.models.volume.rays.batches import Patch, Pixels, complete_pixels, patch_places, random_patch, random_pixels
from dofnerf.models.volume.rays.cameras import (
    CameraStack,
    Rays,
    camera_rays,
    lens_rays,
    pixel_centres,
    pixel_rays,
    stack_cameras,
)
from dofnerf.models.volume.rays.samples import (
    DensityGrid,
    Samples,
    guided,
    importance,
    merge,
    samples_between,
    stratified,
)
from dofnerf.models.volume.rays.space import Space, choose_space

__all__ = [
    "CameraStack", "DensityGrid", "Patch", "Pixels", "Rays", "Samples", "Space", "camera_rays", "choose_space",
    "complete_pixels", "guided", "importance", "lens_rays", "merge", "patch_places", "pixel_centres", "pixel_rays",
    "random_patch", "random_pixels", "samples_between", "stack_cameras", "stratified",
]  # fmt: skip
