"""The depth range of a scene whose files give none: measured from its training photos.

Triangulated points cover what is in focus in two photos or more. A plane sweep over all disparities, from infinity to
the nearest depth at which two neighbouring photos still overlap, covers the rest. Where the optical axes meet says
nothing about either end.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dofnerf.models.splat.start.fusion import agreement
from dofnerf.models.splat.start.sweep import sparse_anchors, sweep
from dofnerf.models.splat.start.triangulation import triangulated
from dofnerf.models.splat.start.views import FARTHEST, choose_neighbours, prepare
from dofnerf.scenes.scene import Scene

_OVERLAP = 0.25  # share of the width that two neighbouring photos have in common at the nearest depth
_PIXELS = 15_000  # of a photo in the sweep: the range needs no detail
_PLANES = 128
_VOTES = 3  # neighbours that agree on a pixel's disparity
_TAIL = 0.003  # share of the disparities at either end that are taken for outliers
_MARGIN = 0.05  # of the range of disparities, added at either end
_FEWEST = 50  # points or pixels


def measured_range(scene: Scene, adjust: bool = False) -> tuple[Scene, str]:
    """`scene` with `near` and `far` as its training photos show them, and a sentence on where they come from.

    Where points were triangulated for it, the scene carries these as well, and with `adjust` cameras that are off were
    moved. Without parallax nothing is changed.
    """
    nearest = nearest_overlap(scene)
    if nearest is None:
        return scene, "no two training photos overlap from different places: the depth range stays a guess"
    wide = replace(scene, near=nearest, far=FARTHEST * nearest, points=None)
    evidence, sources = [], []
    try:
        known, moved = triangulated(wide, adjust=adjust)
        wide = replace(wide, frames=known.frames)
        seen = [1 / known.visible(i).depth for i in scene.train]
        if sum(len(part) for part in seen) >= _FEWEST:
            evidence.append(np.concatenate(seen))
            sources.append(f"{len(known.points or ())} triangulated points")
    except (ValueError, OSError):
        known, moved = wide, ""
    views = prepare(wide, planes=_PLANES, pixels=_PIXELS)
    disparity = sweep(views, sparse_anchors(known, views) if sources else np.zeros_like(views.grey))
    sure = disparity[(agreement(views, disparity) >= _VOTES) & (disparity > 0)]
    if len(sure) >= _FEWEST:
        evidence.append(sure)
        sources.append("a plane sweep over all depths")
    if not evidence:
        return scene, "neither points nor a plane sweep show a depth range: it stays a guess"
    low = min(float(np.quantile(part, _TAIL)) for part in evidence)
    high = max(float(np.quantile(part, 1 - _TAIL)) for part in evidence)
    margin = _MARGIN * (high - low)
    near, far = 1 / (high + margin), 1 / max(low - margin, 1 / (FARTHEST * nearest))
    found = replace(known if sources and known is not wide else scene, near=near, far=far, range_from="points")
    words = f"depth range {near:.4g} to {far:.4g} from {' and '.join(sources)}"
    return found, f"{words}; {moved}" if moved else words


def nearest_overlap(scene: Scene) -> float | None:
    """The depth at which a typical photo and its nearest neighbour still overlap by `_OVERLAP`; None without
    parallax."""
    cameras = tuple(scene.camera(i) for i in scene.train)
    beside = choose_neighbours(cameras, 0.0, 1)
    depths = [
        float(np.linalg.norm(cameras[n].position - camera.position)) * camera.fx / ((1 - _OVERLAP) * camera.width)
        for camera, (n,) in zip(cameras, beside, strict=True)
        if n >= 0
    ]
    return float(np.median(depths)) if depths else None
