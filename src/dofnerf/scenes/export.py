"""Write any scene as transforms.json with its pictures: nerfstudio, instant-ngp and we ourselves read it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from dofnerf.pictures import write_image, write_json, write_map
from dofnerf.scenes.ply import write_ply
from dofnerf.scenes.scene import Frame, Lens, Scene
from dofnerf.scenes.source import Source

POINTS = "points.ply"


def write_transforms(scene: Scene, folder: Path | str, overwrite: bool = False) -> Path:
    """Write pictures, points and transforms.json into `folder`; returns the JSON's path. Pictures become PNG, depth .npy."""
    folder = Path(folder)
    target = folder / "transforms.json"
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target}: exists; choose another folder or allow overwriting")
    names = _stems(scene)
    shared = _shared_intrinsics(scene)
    entries = [_entry(scene, i, names[i], folder, shared) for i in range(len(scene))]
    width, height = scene.size
    data: dict[str, Any] = {"camera_model": "OPENCV", "w": width, "h": height, **shared, "near": scene.near, "far": scene.far}
    if scene.points is not None:
        write_ply(folder / POINTS, scene.points)
        data["ply_file_path"] = POINTS
    data["train_filenames"] = [entries[i]["file_path"] for i in scene.train]
    # Nerfstudio wants both; we hold out one set.
    data["val_filenames"] = data["test_filenames"] = [entries[i]["file_path"] for i in scene.test]
    data["frames"] = entries
    write_json(target, data)
    return target


def _entry(scene: Scene, i: int, name: str, folder: Path, shared: dict[str, float]) -> dict[str, Any]:
    frame = scene.frames[i]
    files: dict[Source, str] = {}
    entry: dict[str, Any] = {}
    for key, source in (("sharp", frame.sharp), ("near", frame.near), ("far", frame.far)):
        if source is not None:
            entry[f"{key}_file_path"] = files[source] = f"{key}/{name}.png"
    photo = files.setdefault(frame.photo, f"images/{name}.png")
    for source, file in files.items():
        write_image(folder / file, scene.picture(i, source))
    entry = {"file_path": photo, **entry}
    if frame.depth is not None:
        entry["depth_file_path"] = f"depth/{name}.npy"
        write_map(folder / entry["depth_file_path"], scene.picture(i, frame.depth))
    for key, lens in (("lens", frame.lens), ("near_lens", frame.near_lens), ("far_lens", frame.far_lens)):
        if lens is not None:
            entry[key] = _lens(lens)
    if frame.bounds is not None:
        entry["near"], entry["far"] = frame.bounds
    if frame.seen is not None and scene.points is not None:
        error = scene.points.error[frame.seen] if frame.seen_error is None else frame.seen_error
        entry["visible_file_path"] = f"visible/{name}.npy"
        write_map(folder / entry["visible_file_path"], np.stack([frame.seen, error], axis=1))
    entry |= {key: value for key, value in _intrinsics(frame).items() if key not in shared}
    entry["transform_matrix"] = [*frame.camera.camera_to_world.tolist(), [0.0, 0.0, 0.0, 1.0]]
    return entry


def _lens(lens: Lens) -> dict[str, float | None]:
    """JSON has no infinity: null stands for it."""
    return {"aperture": lens.aperture, "focus_depth": lens.focus_depth if math.isfinite(lens.focus_depth) else None}


def _intrinsics(frame: Frame) -> dict[str, float]:
    camera = frame.camera
    return {"fl_x": camera.fx, "fl_y": camera.fy, "cx": camera.cx, "cy": camera.cy}


def _shared_intrinsics(scene: Scene) -> dict[str, float]:
    first, *rest = (_intrinsics(frame) for frame in scene.frames)
    return {key: value for key, value in first.items() if all(other[key] == value for other in rest)}


def _stems(scene: Scene) -> list[str]:
    """File names for the views: their own where these differ, else numbers."""
    stems = [Path(frame.name).stem for frame in scene.frames]
    plain = all(stem and stem.isprintable() and "." not in stem and "\\" not in stem for stem in stems)
    return stems if plain and len(set(stems)) == len(stems) else [f"{i:04d}" for i in range(len(stems))]
