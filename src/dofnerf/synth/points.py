"""Sparse 3D points for a scene with known poses, triangulated from its own blurred training photos.

Neither sharp photos nor true depth nor held-out views take part: what comes out is what a user's own capture would give.
Written beside transforms.json and named in it: `points.ply` (xyz, rgb, and `error`, the mean reprojection error in pixels) and,
for each training photo, `visible/NAME.npy`: the numbers of the points that it saw and their errors.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dofnerf.pictures import read_image, write_image, write_json, write_map
from dofnerf.scenes.ply import write_ply
from dofnerf.scenes.scene import Points

# Small blurred photos hold few features at their own size; enlarged, the detector finds several times more.
ENLARGE = 3
# Pixels of the photo; about one of the enlarged photo.
_WORST_ERROR = 0.3


def add_points(transforms: Path | str, hold_every: int = 9, hold_from: int = 4) -> int:
    """Triangulate, write the files, name them in `transforms` (a transforms.json); returns how many points there are.

    Views `hold_from`, `hold_from + hold_every`, … are held out for testing and do not contribute.
    """
    transforms = Path(transforms)
    scene = json.loads(transforms.read_text(encoding="utf-8"))
    training = [i for i in range(len(scene["frames"])) if i % hold_every != hold_from]
    with tempfile.TemporaryDirectory() as folder:
        _stage(Path(folder), transforms.parent, scene, training)
        found = _triangulate(Path(folder))
    keep = found["error"] / ENLARGE < _WORST_ERROR
    points, error = found["xyz"][keep], found["error"][keep] / ENLARGE
    inside = _inside(scene, points, training)
    points, error, colours = points[inside], error[inside], found["rgb"][keep][inside]
    if len(points) < 10:
        raise ValueError(f"{transforms}: only {len(points)} points could be triangulated; use more views or larger photos")
    seen = dict(zip(training, found["visible"][:, keep][:, inside], strict=True))
    write_points(transforms, Points(points, colours, error), seen)
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


def _stage(folder: Path, root: Path, scene: dict[str, Any], training: list[int]) -> None:
    """Enlarged photos, and the cameras in COLMAP's convention, for the child process."""
    views = []
    for index in training:
        frame = scene["frames"][index]
        photo = Image.fromarray((read_image(root / frame["file_path"]) * 255.0 + 0.5).astype(np.uint8))
        large = photo.resize((photo.width * ENLARGE, photo.height * ENLARGE), Image.Resampling.LANCZOS)
        write_image(folder / "photos" / f"{index:05d}.png", np.asarray(large))
        to_world = np.array(frame["transform_matrix"]) @ np.diag([1.0, -1.0, -1.0, 1.0])
        views.append({"name": f"{index:05d}.png", "cam_from_world": np.linalg.inv(to_world)[:3].tolist()})
    params = [scene[key] * ENLARGE for key in ("fl_x", "fl_y", "cx", "cy")]
    camera = {"width": scene["w"] * ENLARGE, "height": scene["h"] * ENLARGE, "params": params}
    write_json(folder / "task.json", {"camera": camera, "views": views})


def _triangulate(folder: Path) -> dict[str, np.ndarray]:
    """Run the child: pycolmap and Pillow's PNG writer must not share a process."""
    command = [sys.executable, "-m", "dofnerf.synth.triangulate", str(folder)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    result = folder / "points.npz"
    if child.returncode != 0 or not result.exists():
        last = (child.stderr.strip().splitlines() or ["no message"])[-1]
        if "No module named 'pycolmap'" in last:
            last = "pycolmap is not installed: pip install 'dofnerf[capture]'"
        raise ValueError(f"triangulation failed: {last}")
    with np.load(result, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _inside(scene: dict[str, Any], points: np.ndarray, training: list[int]) -> np.ndarray:
    """Points whose depth is within the scene's bounds in every training view that looks at them; strays are wrong matches."""
    good = np.ones(len(points), dtype=bool)
    for index in training:
        pose = np.array(scene["frames"][index]["transform_matrix"])
        depth = -(points - pose[:3, 3]) @ pose[:3, 2]
        good &= (depth > scene["near"]) & (depth < scene["far"])
    return good
