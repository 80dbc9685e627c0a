"""Where the splats of a scene begin: from sparse points, from a plane sweep, or spread over the depths; never true
depth.

Sparse points are the scene's own (structure from motion) or, where it has none, triangulated from its photos. They are
exact and few: they are all taken, and guide the sweep, which fills the surfaces between them. What neither knows is
left to chance: random pixels at random disparity. Only training photos are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dofnerf.models.splat.start.fusion import fuse
from dofnerf.models.splat.start.sizes import point_sizes
from dofnerf.models.splat.start.sweep import sparse_anchors, sweep
from dofnerf.models.splat.start.triangulation import triangulated
from dofnerf.models.splat.start.views import FARTHEST, prepare
from dofnerf.scenes.scene import Scene

ENOUGH = 100  # sparse points below which they are not worth the name
_WORST_ERROR = 2.0  # pixels by which a sparse point of the scene's own may miss
_FEW = 0.25  # of `count`: with fewer points than that, some are spread over the depths as well


@dataclass(frozen=True)
class Start:
    """N points: `points` (N, 3) float32, `colours` (N, 3) float32 0..1 display values, `sizes` (N,) float32 in scene
    units.

    `way` names where they come from: "sparse", "triangulated", "sweep", "spread", or some of these joined by "+"; `how`
    says it in a sentence, and why nothing was triangulated where that was tried.
    """

    points: np.ndarray
    colours: np.ndarray
    sizes: np.ndarray
    way: str
    how: str


_SAYS = {
    "sparse": "of the scene's sparse points",
    "triangulated": "triangulated from the photos",
    "sweep": "from a plane sweep",
    "spread": "spread over the depth range",
}


def starting_points(
    scene: Scene,
    count: int = 30_000,
    seed: int = 0,
    *,
    sparse: bool = True,
    triangulate: bool = True,
    swept: bool = True,
) -> Start:
    """About `count` points for the splats of `scene`. `sparse`, `triangulate` and `swept` say which ways may be
    used."""
    if count < 1:
        raise ValueError(f"a start needs at least one point, found {count}")
    if not scene.train:
        raise ValueError(f"{scene.name}: no training photos to start from")
    rng = np.random.default_rng(seed)
    parts: list[tuple[str, np.ndarray, np.ndarray]] = []
    known, origin, trouble = _with_sparse(scene, sparse, triangulate)
    if origin:
        parts.append((origin, *_sparse(known, count, rng, _WORST_ERROR if origin == "sparse" else np.inf)))
    left = count - sum(len(points) for _, points, _ in parts)
    if swept and left > 0 and len(scene.train) > 1:
        views = prepare(known)
        cloud = fuse(views, sweep(views, sparse_anchors(known, views)), left)
        parts.append(("sweep", cloud.points, cloud.colours))
    found = sum(len(points) for _, points, _ in parts)
    if found < (_FEW * count if swept else 1):
        parts.append(("spread", *_spread(scene, count - found, rng)))
    parts = [part for part in parts if len(part[1])]
    points = np.concatenate([part[1] for part in parts])
    colours = np.concatenate([part[2] for part in parts]).astype(np.float32)
    sizes = point_sizes(points, tuple(scene.camera(i) for i in scene.train))
    how = f"{len(points)} points: " + ", ".join(f"{len(part[1])} {_SAYS[part[0]]}" for part in parts)
    how += f"; none triangulated: {trouble}" if trouble else ""
    return Start(points.astype(np.float32), colours, sizes, "+".join(part[0] for part in parts), how)


def _with_sparse(scene: Scene, sparse: bool, triangulate: bool) -> tuple[Scene, str, str]:
    """The scene with the points to begin with, where these are from ("" for nowhere), and why they were not
    triangulated."""
    own = scene if sparse else replace(scene, points=None)
    if own.points is not None and len(own.points) >= ENOUGH:
        return own, "sparse", ""
    if not triangulate:
        return own, "", ""
    try:
        found = triangulated(scene)
    except (ValueError, OSError) as error:
        return own, "", str(error)
    number = 0 if found.points is None else len(found.points)
    return (found, "triangulated", "") if number >= ENOUGH else (own, "", f"only {number} points found")


def _sparse(scene: Scene, count: int, rng: np.random.Generator, worst: float) -> tuple[np.ndarray, np.ndarray]:
    """Sparse points within the depth range of a training photo that miss by `worst` pixels at the most; at most
    `count`."""
    assert scene.points is not None
    fits = scene.points.error <= worst
    seen = np.zeros(len(scene.points), dtype=bool)
    for i in scene.train:
        pixels, depth = scene.camera(i).project(scene.points.xyz)
        seen |= (
            (depth > 0.5 * scene.near) & (depth < 2 * scene.far) & (pixels >= 0).all(1) & (pixels < scene.size).all(1)
        )
    ids = np.flatnonzero(fits & seen)
    if len(ids) > count:
        ids = np.sort(rng.choice(ids, count, replace=False))
    return scene.points.xyz[ids], scene.points.rgb[ids].astype(np.float32) / 255


def _spread(scene: Scene, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random pixels of random training photos, their disparity evenly spread over the scene's."""
    width, height = scene.size
    near, far = scene.near, min(scene.far, FARTHEST * scene.near)
    which = rng.integers(len(scene.train), size=count)
    pixels = rng.uniform(0, 1, (count, 2)) * (width, height)
    depth = 1 / rng.uniform(1 / far, 1 / near, count)
    points, colours = np.empty((count, 3)), np.empty((count, 3), dtype=np.float32)
    for number, i in enumerate(scene.train):
        own = which == number
        points[own] = scene.camera(i).unproject(pixels[own], depth[own])
        columns, rows = np.minimum(pixels[own].astype(int), (width - 1, height - 1)).T
        colours[own] = scene.photo(i)[rows, columns]
    return points, colours
