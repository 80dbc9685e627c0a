"""The depth range of a scene whose files give none, or a wrong one: measured from its training photos.

Triangulated points cover what is in focus in two photos or more. A plane sweep over all disparities, from infinity to
the nearest depth at which two neighbouring photos still overlap, covers the rest. Where the optical axes meet says
nothing about either end.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dofnerf.models.splat.start.bundle import NOTHING, Free
from dofnerf.models.splat.start.fusion import agreement
from dofnerf.models.splat.start.sweep import sparse_anchors, sweep
from dofnerf.models.splat.start.triangulation import triangulated
from dofnerf.models.splat.start.views import FARTHEST, choose_neighbours, prepare
from dofnerf.scenes.scene import Scene

_OVERLAP = 0.25  # share of the width that two neighbouring photos have in common at the nearest depth
_PIXELS, _PLANES = 15_000, 128  # of a photo in the sweep, and depths: the range needs no detail
_FEWER_PIXELS, _FEWER_PLANES = 8_000, 96  # where a range is given, and only what lies far outside of it counts
_VOTES = 3  # neighbours that agree on a pixel's disparity
_TAIL = 0.003  # share of the disparities at either end that are taken for outliers
_MARGIN = 0.05  # of the range of disparities, added at either end
_FEWEST = 50  # points or pixels
_OUTSIDE = 0.1  # of a given range of disparities: what is seen farther beyond either end widens it
_NEARER = 4.0  # times as near as what two photos see: a given near end that is nearer is not swept
_WIDER = 30.0  # times what is seen: a range that is so wide is narrowed; a sweep may miss what has no texture


def measured_range(scene: Scene, adjust: Free = NOTHING) -> tuple[Scene, str]:
    """`scene` with `near` and `far` as its training photos show them, and a sentence on where they come from.

    Where points were triangulated for it, the scene carries these as well, and cameras that are off were moved in what
    `adjust` leaves free. Without parallax nothing is changed.
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
    sure = _swept(wide, known if sources else None)
    if len(sure) >= _FEWEST:
        evidence.append(sure)
        sources.append("a plane sweep over all depths")
    if not evidence:
        return scene, "neither points nor a plane sweep show a depth range: it stays a guess"
    near, far = _ends(evidence, FARTHEST * nearest)
    found = replace(known if sources and known is not wide else scene, near=near, far=far, range_from="points")
    words = f"depth range {near:.4g} to {far:.4g} from {' and '.join(sources)}"
    return found, f"{words}; {moved}" if moved else words


def corrected_range(scene: Scene) -> tuple[Scene, str]:
    """`scene` with a range that holds what its training photos show, if that lies far outside of the range given, or if
    that is much too wide, and a sentence about that. Files often have the range of sparse points, which what no photo
    has in focus lacks, or numbers that somebody made up."""
    nearest = nearest_overlap(scene)
    if nearest is None:
        return scene, ""
    possible = scene.near if _NEARER * scene.near > nearest else nearest  # hardly two photos see what is nearer
    wide = replace(scene, near=min(nearest, possible), far=max(FARTHEST * nearest, scene.far))
    known = scene if scene.points is not None else None
    sure = _swept(wide, known, _FEWER_PIXELS, _FEWER_PLANES)
    if len(sure) < _FEWEST:
        return scene, ""
    seen = [1 / scene.visible(i).depth for i in scene.train]
    points = [np.concatenate(seen)] if sum(map(len, seen)) >= _FEWEST else []
    near, far = _ends([sure, *points], wide.far)
    if is_too_wide((1 / scene.far, 1 / scene.near), (1 / far, 1 / near)):
        words = f"the range given is more than {_WIDER:g} times as wide as what a plane sweep sees"
        return replace(scene, near=near, far=far), f"narrowed to {near:.4g} to {far:.4g}: {words}"
    near, far = _ends([sure], wide.far)
    beyond = _OUTSIDE * (1 / scene.near - 1 / scene.far)
    near = near if 1 / near > 1 / scene.near + beyond else scene.near
    far = far if 1 / far < 1 / scene.far - beyond else scene.far
    if (near, far) == (scene.near, scene.far):
        return scene, ""
    return replace(scene, near=near, far=far), f"widened to {near:.4g} to {far:.4g}: a plane sweep sees that far"


def is_too_wide(given: tuple[float, float], seen: tuple[float, float]) -> bool:
    """Whether a range of disparities (least, largest) is much wider than what is seen: its planes would lie apart."""
    return given[1] - given[0] > _WIDER * (seen[1] - seen[0])


def _swept(scene: Scene, known: Scene | None, pixels: int = _PIXELS, planes: int = _PLANES) -> np.ndarray:
    """Disparities (N,) on which photos agree, by a coarse sweep of the scene's range, anchored at points known."""
    views = prepare(scene, planes=planes, pixels=pixels)
    disparity = sweep(views, np.zeros_like(views.grey) if known is None else sparse_anchors(known, views))
    return disparity[(agreement(views, disparity) >= _VOTES) & (disparity > 0)]


def _ends(evidence: list[np.ndarray], farthest: float) -> tuple[float, float]:
    """The depths between which disparities lie, outliers apart, with a margin."""
    low = min(float(np.quantile(part, _TAIL)) for part in evidence)
    high = max(float(np.quantile(part, 1 - _TAIL)) for part in evidence)
    margin = _MARGIN * (high - low)
    return 1 / (high + margin), 1 / max(low - margin, 1 / farthest)


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
