"""Sparse 3D points for a scene with known poses, triangulated from its own blurred training photos.

Neither sharp photos nor true depth nor held-out views take part: what comes out is what a user's own capture would give.
Written beside transforms.json: `points.ply` (xyz, rgb, and `error`, the mean reprojection error in pixels) and
`points_visible.npy`, bool (frames, points): which photo saw which point. transforms.json names them as `ply_file_path` and
`points_visible_path`.
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

from dofnerf.pictures import atomic, read_image, write_image, write_json

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
    visible = np.zeros((len(scene["frames"]), len(points)), dtype=bool)
    visible[training] = found["visible"][:, keep][:, inside]
    write_ply(transforms.parent / "points.ply", points, colours, error)
    with atomic(transforms.parent / "points_visible.npy") as temporary:
        np.save(temporary, visible, allow_pickle=False)
    names = {"ply_file_path": "points.ply", "points_visible_path": "points_visible.npy"}
    frames = scene.pop("frames")
    write_json(transforms, {**scene, **names, "frames": frames})
    return len(points)


def write_ply(path: Path, points: np.ndarray, colours: np.ndarray, error: np.ndarray) -> None:
    """Binary PLY of `points` (N, 3), `colours` (N, 3) uint8 and `error` (N,) in pixels."""
    fields = [(name, "<f4") for name in "xyz"] + [(name, "u1") for name in ("red", "green", "blue")] + [("error", "<f4")]
    table = np.empty(len(points), dtype=fields)
    for column, name in enumerate("xyz"):
        table[name] = points[:, column]
    for column, name in enumerate(("red", "green", "blue")):
        table[name] = colours[:, column]
    table["error"] = error
    kinds = {"<f4": "float", "u1": "uchar"}
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {len(points)}"]
    lines += [f"property {kinds[kind]} {name}" for name, kind in fields] + ["end_header", ""]
    with atomic(path) as temporary:
        temporary.write_bytes("\n".join(lines).encode("ascii") + table.tobytes())


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
