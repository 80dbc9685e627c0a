"""Write scenes and cameras as transforms.json, which nerfstudio, instant-ngp and we ourselves read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files import has_more_than_8_bits, write_deep_png, write_image, write_json, write_map
from dofnerf.files.ply import write_ply
from dofnerf.optics.lens import Lens
from dofnerf.scenes.scene import Scene, Viewpoint
from dofnerf.scenes.source import Source

IMAGES, POINTS = "images", "points.ply"


def write_transforms(
    scene: Scene,
    folder: Path | str,
    overwrite: bool = False,
    resume: bool = False,
    track: Callable[[Sequence[int]], Iterable[int]] = iter,
    with_bounds: bool = True,
) -> Path:
    """Write pictures and masks (PNG, of 16 bits where the source has more than 8), depth (.npy), points and
    transforms.json into `folder`; returns the JSON's path.

    With `resume`, pictures and depth maps that are there already are kept, and not even loaded. `track` wraps the loop
    over views: a progress bar. Without `with_bounds`, the file does not give the scene's depth range.
    """
    folder = Path(folder)
    target = folder / "transforms.json"
    if target.exists() and not (overwrite or resume):
        raise FileExistsError(f"{target}: exists; choose another folder or allow overwriting")
    names = stems(scene)
    shared = _shared_intrinsics(scene)
    entries = []
    for i in track(range(len(scene))):
        entry = _entry(scene, i, names[i], shared)
        _write_files(scene, i, entry, folder, resume)
        entries.append(entry)
    width, height = scene.size
    data: dict[str, Any] = {"camera_model": "OPENCV", "w": width, "h": height, **shared}
    if with_bounds:
        data |= {"near": scene.near, "far": scene.far}
    if scene.points is not None:
        write_ply(folder / POINTS, scene.points)
        data["ply_file_path"] = POINTS
    if scene.metres is not None:
        data["metres"] = scene.metres
    if scene.linear:
        data["linear"] = True
    if scene.notes:
        data["notes"] = list(scene.notes)
    data["train_filenames"] = [entries[i]["file_path"] for i in scene.train]
    # Nerfstudio wants both; we hold out one set.
    data["val_filenames"] = data["test_filenames"] = [entries[i]["file_path"] for i in scene.test]
    data["frames"] = entries
    write_json(target, data)
    return target


def _entry(scene: Scene, i: int, name: str, shared: dict[str, float]) -> dict[str, Any]:
    frame = scene.frames[i]
    entry: dict[str, Any] = {"file_path": f"{IMAGES}/{name}.png"}
    for key in ("sharp", "near", "far"):
        source = getattr(frame, key)
        if source is not None:
            entry[f"{key}_file_path"] = f"{key}/{name}.png"
            if source == frame.photo:
                entry["file_path"] = entry[f"{key}_file_path"]
    if frame.depth is not None:
        entry["depth_file_path"] = f"depth/{name}.npy"
    if frame.mask is not None:
        entry["mask_path"] = f"masks/{name}.png"
    for key, lens in (("lens", frame.lens), ("near_lens", frame.near_lens), ("far_lens", frame.far_lens)):
        if lens is not None:
            entry[key] = plain_lens(lens)
    if told := scene.exif(i):
        entry["exif"] = told.plain()
    if frame.bracket is not None:
        entry["bracket"] = frame.bracket
    if frame.bounds is not None:
        entry["near"], entry["far"] = frame.bounds
    if frame.seen is not None and scene.points is not None:
        entry["visible_file_path"] = f"visible/{name}.npy"
    entry |= {key: value for key, value in _intrinsics(frame.camera).items() if key not in shared}
    return entry | {"transform_matrix": _matrix(frame.camera)}


def _write_files(scene: Scene, i: int, entry: dict[str, Any], folder: Path, resume: bool) -> None:
    frame = scene.frames[i]
    files: dict[str, Source | None] = {entry["file_path"]: frame.photo}
    for key in ("sharp", "near", "far"):
        if f"{key}_file_path" in entry:
            files[entry[f"{key}_file_path"]] = getattr(frame, key)
    for file, source in files.items():
        if source is not None and not (resume and (folder / file).exists()):
            write = write_deep_png if has_more_than_8_bits(source.label) else write_image
            write(folder / file, scene.picture(i, source))
    if frame.depth is not None and not (resume and (folder / entry["depth_file_path"]).exists()):
        write_map(folder / entry["depth_file_path"], scene.picture(i, frame.depth))
    if frame.mask is not None and not (resume and (folder / entry["mask_path"]).exists()):
        write_image(folder / entry["mask_path"], np.uint8(255) * scene.picture(i, frame.mask))
    if frame.seen is not None and scene.points is not None:
        error = scene.points.error[frame.seen] if frame.seen_error is None else frame.seen_error
        write_map(folder / entry["visible_file_path"], np.stack([frame.seen, error], axis=1))


def plain_lens(lens: Lens) -> dict[str, float | None]:
    """JSON has no infinity: null stands for it."""
    return {"aperture": lens.aperture, "focus_depth": lens.focus_depth if math.isfinite(lens.focus_depth) else None}


def _intrinsics(camera: Camera) -> dict[str, float]:
    return {"fl_x": camera.fx, "fl_y": camera.fy, "cx": camera.cx, "cy": camera.cy}


def _shared_intrinsics(scene: Scene) -> dict[str, float]:
    first, *rest = (_intrinsics(frame.camera) for frame in scene.frames)
    return {key: value for key, value in first.items() if all(other[key] == value for other in rest)}


def stems(scene: Scene) -> list[str]:
    """File names for the views: their own where these differ, else numbers."""
    return plain_stems([frame.name for frame in scene.frames])


def plain_stems(names: Sequence[str]) -> list[str]:
    """The same for any names."""
    stems = [Path(name).stem for name in names]
    plain = all(stem and stem.isprintable() and "." not in stem and "\\" not in stem for stem in stems)
    return stems if plain and len(set(stems)) == len(stems) else [f"{i:04d}" for i in range(len(stems))]


def write_cameras(path: Path | str, views: Sequence[Viewpoint], **beside: Any) -> None:
    """Write cameras without photos as a transforms.json; `beside` stands next to the frames."""
    names: dict[str, list[str]] = {"train_filenames": [], "test_filenames": []}
    for view in views:
        names["test_filenames" if view.held_out else "train_filenames"].append(view.name)
    split = {**names, "val_filenames": names["test_filenames"]} if names["test_filenames"] else {}
    write_json(path, {"camera_model": "PINHOLE", **beside, **split, "frames": [plain_view(view) for view in views]})


def plain_view(view: Viewpoint) -> dict[str, Any]:
    """A frame of transforms.json."""
    camera = view.camera
    entry: dict[str, Any] = {"file_path": view.name, "w": camera.width, "h": camera.height, **_intrinsics(camera)}
    if view.lens is not None:
        entry["lens"] = plain_lens(view.lens)
    return entry | {"transform_matrix": _matrix(camera)}


def _matrix(camera: Camera) -> list[list[float]]:
    return [*camera.camera_to_world.tolist(), [0.0, 0.0, 0.0, 1.0]]
