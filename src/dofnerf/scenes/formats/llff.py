"""LLFF folders: poses_bounds.npy and images, images_2, images_4, images_8.

Each of the 17 columns' rows is a 3×5 matrix, then the near and far depth of what the photo sees. The matrix holds the
camera's [down, right, back] axes, its position, and (height, width, focal length) in pixels of the full-size photo, all
per photo. Our OpenGL axes are [right, up, back], so x is column 1 and y is minus column 0.

A sparse COLMAP model beside it gives 3D points, if its numbering can be matched to the photos *and* its geometry
agrees: by poses where the model has them, else by the depth ranges, which LLFF took from those very points.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files.guard import SMALLEST_NUMBER, bounds, pose, read_array, shown
from dofnerf.scenes.colmap_model import Model, find_model, read_model
from dofnerf.scenes.formats import colmap
from dofnerf.scenes.photos import list_photos, photo_folder, picture_at, saved_smaller
from dofnerf.scenes.protocol import Found, ReadOptions
from dofnerf.scenes.ranges import depth_range
from dofnerf.scenes.scene import Frame, Points

POSES = "poses_bounds.npy"


def read(root: Path, options: ReadOptions) -> Found:
    """The scene in `root`."""
    table = read_poses(root)
    folder = photo_folder(root, options.downscale)
    photos = list_photos(root, folder, len(table), root / POSES)
    full_width = round(table[0, 9])
    if options.save_resized and options.downscale:
        photos = saved_smaller(root, photos, full_width, options.downscale)
    frames = [frame_of(root, table, i, photo) for i, photo in enumerate(photos)]
    frames, points, notes = with_points(root, frames, options)
    return found(root, "LLFF", frames, full_width, points, notes)


def read_poses(root: Path) -> np.ndarray:
    """The table of poses (N, 17)."""
    path = root / POSES
    if not path.resolve().is_relative_to(root.resolve()):
        raise ValueError(f"{path}: leads outside the scene folder")
    if not path.is_file():
        raise ValueError(f"{path}: missing")
    table = read_array(path)
    if table.ndim != 2 or table.shape[1] != 17 or not len(table):
        raise ValueError(
            f"{path}: expected one row of 17 numbers for each photo, found an array of shape {table.shape}"
        )
    for i, size in enumerate(table[:, [4, 9, 14]]):
        if not (
            np.isfinite(size).all()
            and (size > SMALLEST_NUMBER).all()
            and (size[:2] >= 1).all()
            and (size < 1 << 20).all()
        ):
            raise ValueError(
                f"{path}: frame {i}: height, width or focal length is zero, NaN or absurd ({shown(size.tolist())})"
            )
    return table


def frame_of(root: Path, table: np.ndarray, i: int, photo: Path) -> Frame:
    """View i of the table, at the size of its photo."""
    where = f"{root / POSES}: frame {i} ({photo.name})"
    matrix = table[i, :15].reshape(3, 5)
    down, right, back, position, (height, width, focal) = matrix.T
    to_world = pose(np.stack([right, -down, back, position], axis=1), where)
    near, far = table[i, 15:].tolist()
    source = picture_at(photo, (round(width), round(height)), where)
    full = Camera(to_world, float(focal), float(focal), width / 2, height / 2, round(width), round(height))
    return Frame(photo.stem, full.resized(source.width, source.height), source, bounds=bounds(near, far, where))


def found(
    root: Path, name: str, frames: list[Frame], full_width: int, points: Points | None, notes: tuple[str, ...]
) -> Found:
    """The scene of these frames, whose depth range spans all of theirs."""
    ranges = [frame.bounds for frame in frames if frame.bounds]
    near, far = min(r[0] for r in ranges), max(r[1] for r in ranges)
    return Found(root.resolve().name, name, frames, near, far, full_width, points, notes=notes)


def with_points(
    root: Path, frames: list[Frame], options: ReadOptions
) -> tuple[list[Frame], Points | None, tuple[str, ...]]:
    """The frames with the sparse points that they see, the points, and a note if a model was there but did not fit."""
    folder = find_model(root)
    if folder is None:
        return frames, None, ()
    model = read_model(folder, options.use_pycolmap)
    if not len(model.points.xyz):
        return frames, None, ()
    order = _numbering(model, frames)
    if order is None:
        return (
            frames,
            None,
            (f"the sparse points in {folder.relative_to(root)} do not fit these poses and are left out",),
        )
    points = Points(model.points.xyz, model.points.rgb, model.points.error)
    if model.images:
        return colmap.seen_by(model, frames, order), points, ()
    # Errors are in pixels of the model's camera, which is then the only record of its size.
    camera = next(iter(model.cameras.values()))
    scale = frames[0].camera.width / camera.width
    points = replace(points, error=points.error * scale)
    seen = colmap.seen_by(model, frames, order)
    return [replace(f, seen_error=points.error[f.seen]) for f in seen], points, ()


def _numbering(model: Model, frames: list[Frame]) -> list[int] | None:
    """The model's image id of each frame, or None if the model does not fit."""
    if not model.images:
        order = list(range(1, len(frames) + 1))
        return order if all(_same_depths(model, frame, key) for frame, key in zip(frames, order, strict=True)) else None
    by_name = sorted(model.images, key=lambda key: model.images[key].name)
    by_stem = {Path(model.images[key].name).stem: key for key in by_name}
    if all(frame.name in by_stem for frame in frames):
        order = [by_stem[frame.name] for frame in frames]
    elif len(by_name) == len(frames):
        order = by_name
    else:
        return None
    return order if all(_same_pose(model, frame, key) for frame, key in zip(frames, order, strict=True)) else None


def _same_depths(model: Model, frame: Frame, key: int) -> bool:
    seen = model.points.track_point[model.points.track_image == key]
    measured = depth_range(frame.camera.project(model.points.xyz[seen])[1])
    return measured is not None and frame.bounds is not None and bool(np.allclose(measured, frame.bounds, rtol=0.02))


def _same_pose(model: Model, frame: Frame, key: int) -> bool:
    image = model.images[key]
    if image.camera_id not in model.cameras or frame.bounds is None:
        return False
    theirs, ours = colmap.camera_pose(image, f"{model.folder}: image {image.name!r:.200}"), frame.camera.camera_to_world
    apart = np.linalg.norm(theirs[:, 3] - ours[:, 3])
    return bool(np.abs(theirs[:, :3] - ours[:, :3]).max() < 0.02 and apart < 0.02 * frame.bounds[0])
