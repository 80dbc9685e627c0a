"""Where the Gaussians of a scene start: `starting_points(scene, count)` → points, colours, sizes.

Sparse points are the scene's own (structure from motion) or, where it has none, triangulated from its photos. They are
accurate but few: all are used, and they guide a plane sweep that fills the surfaces between them. If both find too
little, random pixels get a random disparity. Only training photos are read, and never true depth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree

from dofnerf.camera import Camera
from dofnerf.models.splat.start.fusion import fuse
from dofnerf.models.splat.start.sweep import sparse_anchors, sweep
from dofnerf.models.splat.start.triangulation import triangulated
from dofnerf.models.splat.start.views import FARTHEST, prepare
from dofnerf.scenes.scene import Scene

ENOUGH = 100  # sparse points; fewer are not used
_WORST_ERROR = 2.0  # reprojection error in pixels of the scene's own sparse points
_FEW = 0.25  # share of `count`; with fewer points than that, random ones are added
_LARGEST = 8.0  # pixels of the nearest camera: an isolated point must not cover a picture
_SAYS = {
    "sparse": "of the scene's sparse points",
    "triangulated": "triangulated from the photos",
    "sweep": "from a plane sweep",
    "spread": "spread over the depth range",
}


@dataclass(frozen=True)
class Start:
    """`points` (N, 3) float32 in world coordinates, `colours` (N, 3) float32 display values, `sizes` (N,) float32 in
    scene units.

    `way` is the origin of the points: keys of `_SAYS` joined by "+". `how` says the same as a sentence, with the reason
    if triangulation failed.
    """

    points: np.ndarray
    colours: np.ndarray
    sizes: np.ndarray
    way: str
    how: str


def starting_points(
    scene: Scene,
    count: int = 30_000,
    seed: int = 0,
    *,
    sparse: bool = True,
    triangulate: bool = True,
    swept: bool = True,
) -> Start:
    """About `count` points; `sparse`, `triangulate` and `swept` switch the three sources on or off."""
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
        parts.append(("sweep", *fuse(views, sweep(views, sparse_anchors(known, views)), left)))
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
    """The scene with its sparse points, their origin ("" if there are none), and why triangulation failed."""
    own = scene if sparse else replace(scene, points=None)
    if own.points is not None and len(own.points) >= ENOUGH:
        return own, "sparse", ""
    if not triangulate:
        return own, "", ""
    try:
        found, _ = triangulated(scene)
    except (ValueError, OSError) as error:
        return own, "", str(error)
    number = 0 if found.points is None else len(found.points)
    return (found, "triangulated", "") if number >= ENOUGH else (own, "", f"only {number} points found")


def _sparse(scene: Scene, count: int, rng: np.random.Generator, worst: float) -> tuple[np.ndarray, np.ndarray]:
    """At most `count` sparse points with an error of `worst` pixels or less, in the depth range of a training photo."""
    assert scene.points is not None
    seen = np.zeros(len(scene.points), dtype=bool)
    for i in scene.train:
        pixels, depth = scene.camera(i).project(scene.points.xyz)
        inside = (depth > 0.5 * scene.near) & (depth < 2 * scene.far) & scene.camera(i).contains(pixels)
        if (mask := scene.mask(i)) is not None:
            column, row = pixels[inside].astype(int).T
            inside[inside] = mask[row, column]
        seen |= inside
    ids = np.flatnonzero((scene.points.error <= worst) & seen)
    if len(ids) > count:
        ids = np.sort(rng.choice(ids, count, replace=False))
    return scene.points.xyz[ids], scene.points.rgb[ids].astype(np.float32) / 255


def _spread(scene: Scene, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random pixels of random training photos, those that count, at a disparity uniform over the scene's range."""
    width, height = scene.size
    near, far = scene.near, min(scene.far, FARTHEST * scene.near)
    which = rng.integers(len(scene.train), size=count)
    pixels = rng.uniform(0, 1, (count, 2)) * (width, height)
    depth = 1 / rng.uniform(1 / far, 1 / near, count)
    points, colours = np.empty((count, 3)), np.empty((count, 3), dtype=np.float32)
    counts = np.ones(count, dtype=bool)
    for number, i in enumerate(scene.train):
        own = which == number
        points[own] = scene.camera(i).unproject(pixels[own], depth[own])
        columns, rows = np.minimum(pixels[own].astype(int), (width - 1, height - 1)).T
        colours[own] = scene.photo(i)[rows, columns]
        if (mask := scene.mask(i)) is not None:
            counts[own] = mask[rows, columns]
    return points[counts], colours[counts]


def point_sizes(points: np.ndarray, cameras: tuple[Camera, ...]) -> np.ndarray:
    """Starting sizes (N,) float32 of Gaussians at `points` (N, 3), in scene units.

    The mean distance to the three nearest points, at most `_LARGEST` pixels in any camera that sees the point.
    """
    pixel = np.full(len(points), np.inf)  # size of a pixel at the point, of the nearest camera
    for camera in cameras:
        pixels, depth = camera.project(points)
        inside = (depth > 0) & camera.contains(pixels)
        pixel[inside] = np.minimum(pixel[inside], depth[inside] / max(camera.fx, camera.fy))
    sizes = np.zeros(len(points), dtype=np.float32)
    if len(points) > 1:
        distances = cKDTree(points).query(points, k=min(4, len(points)))[0]
        sizes[:] = distances[:, 1:].mean(axis=1)  # the first is the point itself
    seen = np.isfinite(pixel)
    sizes[seen] = np.clip(sizes[seen], 0.1 * pixel[seen], _LARGEST * pixel[seen])
    extent = float(np.ptp(points, axis=0).max()) if len(points) else 0.0
    return np.maximum(sizes, np.float32(1e-9 * (extent or 1.0)))
