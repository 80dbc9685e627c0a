"""Sparse 3D points for a scene with known poses, triangulated from its own blurred training photos.

Neither sharp photos nor true depth nor held-out views take part: what comes out is what a user's own capture would
give. Written beside transforms.json and named in it: `points.ply` (xyz, rgb, and `error`, the mean reprojection error
in pixels) and, for each training photo, `visible/NAME.npy`: the numbers of the points that it saw and their errors.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from dofnerf import scenes
from dofnerf.files import write_json, write_map
from dofnerf.files.ply import write_ply
from dofnerf.models.splat.start.triangulation import Effort, triangulated
from dofnerf.scenes.scene import Points, Scene

# There is time: more features, from half a pixel on.
_EFFORT = Effort(features=6000, first_octave=-1, seconds=3600)
_WORST_ERROR = 0.3  # pixels of the photo


def add_points(transforms: Path | str, hold_every: int = 9, hold_from: int = 4) -> int:
    """Triangulate, write the files, name them in `transforms` (a transforms.json); returns how many points there are.

    Views `hold_from`, `hold_from + hold_every`, … are held out for testing and do not contribute.
    """
    transforms = Path(transforms)
    scene = scenes.load(transforms, mix="photo", hold_every=hold_every, hold_first=hold_from)
    try:
        found = triangulated(scene, _EFFORT)
    except ValueError as error:
        raise ValueError(f"{transforms}: triangulation failed: {error}") from None
    assert found.points is not None
    keep = (found.points.error < _WORST_ERROR) & _inside(scene, found.points.xyz)
    points = Points(found.points.xyz[keep], found.points.rgb[keep], found.points.error[keep])
    if len(points) < 10:
        raise ValueError(
            f"{transforms}: only {len(points)} points could be triangulated; use more views or larger photos"
        )
    write_points(transforms, points, {i: np.isin(np.flatnonzero(keep), found.visible(i).ids) for i in scene.train})
    return len(points)


def write_points(transforms: Path, points: Points, seen: dict[int, np.ndarray]) -> None:
    """Write `points` and, for the frames that are keys of `seen`, which of them it saw, bool (P,); name the files."""
    scene = json.loads(transforms.read_text(encoding="utf-8"))
    write_ply(transforms.parent / "points.ply", points)
    frames = scene.pop("frames")
    for index, frame in enumerate(frames):
        frame.pop("visible_file_path", None)
        if index in seen:
            ids = np.flatnonzero(seen[index])
            frame["visible_file_path"] = f"visible/{index:03d}.npy"
            write_map(transforms.parent / frame["visible_file_path"], np.stack([ids, points.error[ids]], axis=1))
    write_json(transforms, {**scene, "ply_file_path": "points.ply", "frames": frames})


def _inside(scene: Scene, points: np.ndarray) -> np.ndarray:
    """Points whose depth is within the scene's bounds in every training view; strays are wrong matches."""
    good = np.ones(len(points), dtype=bool)
    for i in scene.train:
        depth = scene.camera(i).project(points)[1]
        good &= (depth > scene.near) & (depth < scene.far)
    return good
