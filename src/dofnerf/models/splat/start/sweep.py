"""A plane sweep over the training photos: a disparity for each pixel of each photo, by comparing it with its
neighbours.

Every plane of equal disparity moves a neighbour's photo onto the reference; where they correlate in a small window, the
plane is near the truth. Half of the neighbours may disagree: one is hidden there, or has the place in another focus.
Correlation does not mind that one photo is a little more blurred than the other, and two photos of the same focus are
blurred alike. What has no texture takes its disparity from around it (semi-global matching). A blurred place is known
less well than a sharp one, so the maps of all photos are then held against each other: see fusion.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dofnerf.models.splat.start.sweep_kernels import sweep_photos
from dofnerf.models.splat.start.views import Views
from dofnerf.optics.kernels import run_jobs
from dofnerf.scenes.scene import Scene


@dataclass(frozen=True)
class SweepOptions:
    """Chosen among some twenty settings by the true depth of the packaged scene's training views; as are fusion's
    tiers."""

    half_window: int = 3
    noise: float = 3e-5  # variance of grey
    step: float = 0.1
    jump: float = 1.0


def sweep(views: Views, anchors: np.ndarray, options: SweepOptions | None = None) -> np.ndarray:
    """Disparity (V, H, W) float32 of every pixel; `anchors` (V, H, W) is one known from elsewhere, 0 where there is
    none."""
    options = options or SweepOptions()
    disparity, trust = np.zeros_like(views.grey), np.zeros_like(views.grey)
    numbers = np.array([options.half_window, options.noise, options.step, options.jump], dtype=np.float32)
    known = (views.grey, views.neighbours, views.maps, views.planes)
    run_jobs(sweep_photos, len(views.grey), (*known, anchors, numbers, disparity, trust))
    return disparity


def sparse_anchors(scene: Scene, views: Views) -> np.ndarray:
    """Disparities (V, H, W) of the scene's sparse points at the pixels where photos see them, 0 elsewhere."""
    anchors = np.zeros_like(views.grey)
    height, width = views.grey.shape[1:]
    for v, frame in enumerate(views.frames):
        seen = scene.visible(frame)
        order = np.argsort(-seen.depth)  # the nearest is written last
        columns, rows = (seen.pixels[order] * (width / scene.size[0], height / scene.size[1])).astype(int).T
        anchors[v, np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)] = 1 / seen.depth[order]
    return anchors
