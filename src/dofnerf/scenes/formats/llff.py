"""LLFF folders: poses_bounds.npy and images, images_2, images_4, images_8.

Each row of 17 numbers is a 3×5 matrix, then the near and far depth of what the photo sees. The matrix holds the
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
from dofnerf.scenes.colmap_model import Model, camera_pose, find_model, read_model, seen_by
from dofnerf.scenes.masks import find_mask
from dofnerf.scenes.photos import list_photos, photo_folder, picture_at, saved_smaller
from dofnerf.scenes.reading import Found, ReadOptions, depth_range
from dofnerf.scenes.scene import Frame

POSES = "poses_bounds.npy"
name, order = "llff", 30


def detects(path: Path) -> bool:
    """Whether there is a table of poses."""
    return (path / POSES).is_file()


def read(root: Path, options: ReadOptions) -> Found:
    """The scene in `root`."""
    table = read_poses(root)
    folder = photo_folder(root, options.downscale)
    photos = list_photos(root, folder, len(table), root / POSES)
    full_width = round(table[0, 9])
    if options.save_resized and options.downscale:
        photos = saved_smaller(root, photos, full_width, options.downscale)
    frames = [frame_of(root, table, i, photo) for i, photo in enumerate(photos)]
    return found(root, "LLFF", frames, full_width)


def read_poses(root: Path) -> np.ndarray:
    """The table of poses (N, 17)."""
    path = root / POSES
    if not path.resolve().is_relative_to(root.resolve()):
        raise ValueError(f"{path}: leads outside the scene folder")
    if not path.is_file():
        raise ValueError(f"{path}: missing")
    table = read_array(path)
    if table.ndim != 2 or table.shape[1] != 17 or not len(table):
        raise ValueError(f"{path}: expected one row of 17 numbers for each photo, found shape {table.shape}")
    for i, size in enumerate(table[:, [4, 9, 14]]):
        if not ((size > SMALLEST_NUMBER) & (size < 1 << 20)).all() or (size[:2] < 1).any():
            found = shown(size.tolist())
            raise ValueError(f"{path}: frame {i}: height, width or focal length is zero, NaN or absurd ({found})")
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
    camera, mask = (
        full.resized(source.width, source.height),
        find_mask(root, photo.name, photo, (source.width, source.height)),
    )
    return Frame(photo.stem, camera, source, bounds=bounds(near, far, where), mask=mask)


def found(root: Path, kind: str, frames: list[Frame], full_width: int) -> Found:
    """The scene of these frames, with the sparse points that they see, if a COLMAP model is there and fits."""
    name = root.resolve().name
    folder = find_model(root)
    model = None if folder is None else read_model(folder)
    if folder is None or model is None or not len(model.points.xyz):
        return Found(name, kind, frames, full_width=full_width)
    order = _numbering(model, frames)
    if order is None or not model.cameras:
        note = f"the sparse points in {folder.relative_to(root)} do not fit these poses and are left out"
        return Found(name, kind, frames, full_width=full_width, notes=(note,))
    points = model.sparse_points()
    frames = seen_by(model, frames, order)
    if not model.images:
        # Errors are in pixels of the model's camera, which is then the only record of its size.
        scale = frames[0].camera.width / next(iter(model.cameras.values())).width
        points = replace(points, error=points.error * scale)
        frames = [replace(frame, seen_error=points.error[frame.seen]) for frame in frames]
    return Found(name, kind, frames, full_width=full_width, points=points)


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
    theirs, ours = camera_pose(image, f"{model.folder}: image {image.name!r:.200}"), frame.camera.camera_to_world
    apart = np.linalg.norm(theirs[:, 3] - ours[:, 3])
    return bool(np.abs(theirs[:, :3] - ours[:, :3]).max() < 0.02 and apart < 0.02 * frame.bounds[0])
