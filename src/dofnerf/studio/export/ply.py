"""Splats, or what the training views see as coloured points: `--ply`."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from dofnerf.files.pictures import to_bytes
from dofnerf.files.ply import Drawing, Points, Splats, write_ply, write_splats
from dofnerf.scenes import Viewpoint
from dofnerf.studio.export import Job, register
from dofnerf.studio.export.splat_kind import SplatKind
from dofnerf.studio.source import Source

MOST_POINTS = 300_000
FLAT = 0.03  # relative change of disparity over a pixel beyond which a point may hang in the air between two things


@register
class SceneFile(SplatKind):
    """One .ply file."""

    name = "ply"
    about = "The splats of the run as 3D Gaussian Splatting writes them; of a volumetric run, a coloured point cloud."
    suffixes = (".ply",)
    says_light = True

    def check_without_splats(self, source: Source) -> None:
        if not source.views:
            raise ValueError(
                f"{source.path}: the run has no cameras.json, whose views would give its points; train it again"
            )

    def write(self, job: Job, view: Viewpoint | None) -> str:
        if job.source.model.splats() is not None:
            return super().write(job, view)
        points = seen_points(job.source)
        write_ply(self.target(job, view), points)
        return f"{len(points):,} coloured points"

    def save(self, path: Path, splats: Splats, drawing: Drawing) -> None:
        write_splats(path, splats, drawing)


def seen_points(source: Source) -> Points:
    """A coloured point where each of some pixels of each training view looks, on the scene's surfaces."""
    from dofnerf.studio.shoot import SEEN, sharp_picture

    cameras = [view.camera for view in source.views if not view.held_out] or [view.camera for view in source.views]
    stride = max(1, math.ceil(math.sqrt(sum(camera.width * camera.height for camera in cameras) / MOST_POINTS)))
    places, colours = [], []
    for camera in cameras:
        view, picture = sharp_picture(source.model, camera)
        slope = np.hypot(*np.gradient(picture.disparity)) / np.maximum(picture.disparity, 1e-9)
        solid = (view.alpha.cpu().numpy() > SEEN) & (picture.disparity > 0) & (slope < FLAT)
        rows, columns = np.nonzero(solid[::stride, ::stride])
        rows, columns = rows * stride, columns * stride
        pixels = np.stack([columns, rows], axis=-1) + 0.5
        places.append(camera.unproject(pixels, 1 / picture.disparity[rows, columns].astype(np.float64)))
        colours.append(to_bytes(picture.image[rows, columns]))
    xyz = np.concatenate(places)
    if not len(xyz):
        raise ValueError(f"{source.path}: its views show no surface to take points from; train it longer")
    return Points(xyz, np.concatenate(colours), np.ones(len(xyz)))
