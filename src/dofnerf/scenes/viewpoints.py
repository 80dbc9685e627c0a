"""Cameras without photos, as JSON: transforms.json, as we and nerfstudio write it, and cameras.json of 3D Gaussian
Splatting.

The second is a list, one entry a photo: img_name, width, height, fx, fy, position (3), rotation (3, 3) camera-to-world
with the axes of OpenCV (x right, y down, z ahead).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files import write_json
from dofnerf.files.guard import number, pose, read_json_value, shown
from dofnerf.scenes.export import intrinsics, plain_lens
from dofnerf.scenes.formats.transforms import read_viewpoints
from dofnerf.scenes.scene import Viewpoint

LARGEST_SIDE = 1 << 20


def read_cameras(path: Path | str) -> list[Viewpoint]:
    """The cameras of a file in either format, at least one."""
    path = Path(path)
    data = read_json_value(path)
    if isinstance(data, dict):
        return read_viewpoints(path, data)
    if not isinstance(data, list) or not data:
        raise ValueError(f"{path}: expected a transforms.json with frames, or a list of cameras, found {shown(data)}")
    return [_listed(entry, i, f"{path}: camera {i}") for i, entry in enumerate(data)]


def write_cameras(path: Path | str, views: Sequence[Viewpoint], **beside: Any) -> None:
    """Write a transforms.json that `read_cameras` and, with its photos, others read; `beside` stands next to the
    frames."""
    names: dict[str, list[str]] = {"train_filenames": [], "test_filenames": []}
    for view in views:
        names["test_filenames" if view.held_out else "train_filenames"].append(view.name)
    split = {**names, "val_filenames": names["test_filenames"]} if names["test_filenames"] else {}
    write_json(path, {"camera_model": "PINHOLE", **beside, **split, "frames": [plain_view(view) for view in views]})


def plain_view(view: Viewpoint) -> dict[str, Any]:
    """A frame of transforms.json."""
    camera = view.camera
    entry: dict[str, Any] = {"file_path": view.name, "w": camera.width, "h": camera.height, **intrinsics(camera)}
    if view.lens is not None:
        entry["lens"] = plain_lens(view.lens)
    return entry | {"transform_matrix": [*camera.camera_to_world.tolist(), [0.0, 0.0, 0.0, 1.0]]}


def _listed(entry: Any, i: int, where: str) -> Viewpoint:
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: expected an object, found {shown(entry)}")
    fx, fy, width, height = (
        number(entry.get(key), f"{where}: {key}", positive=True) for key in ("fx", "fy", "width", "height")
    )
    if min(width, height) < 1 or max(width, height) > LARGEST_SIDE:
        raise ValueError(f"{where}: a photo of {width:g}×{height:g} pixels")
    try:
        matrix = np.concatenate(
            [np.array(entry["rotation"], float), np.array(entry["position"], float).reshape(3, 1)], axis=1
        )
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{where}: expected a position of 3 numbers and a rotation of 3×3") from None
    to_world = pose(matrix, where) * [1, -1, -1, 1]  # OpenCV → OpenGL: y and z turn round
    name = entry.get("img_name")
    size = round(width), round(height)
    return Viewpoint(
        name if isinstance(name, str) and name else f"{i:04d}", Camera(to_world, fx, fy, width / 2, height / 2, *size)
    )
