"""COLMAP scenes: a sparse model (sparse/0, binary or text) and its photos, undistorted on load.

COLMAP stores world-to-camera with OpenCV's axes (y down, z forward) and pixel centres at +0.5; here they become our
camera (OpenGL axes). Each photo knows which sparse points it sees and by how many pixels they miss.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files.guard import SMALLEST_NUMBER, inside, number, pose
from dofnerf.scenes.colmap_model import Model, ModelCamera, ModelImage, find_model, read_model
from dofnerf.scenes.distortion import Distortion, Undistorted, straighten
from dofnerf.scenes.photos import photo_folder, picture_at, saved_smaller
from dofnerf.scenes.protocol import Found, ReadOptions
from dofnerf.scenes.ranges import depth_range
from dofnerf.scenes.scene import Frame, Points
from dofnerf.scenes.source import Source

SUFFIXES = ("", ".png", ".jpg", ".jpeg", ".JPG", ".JPEG", ".PNG")


def read(root: Path, options: ReadOptions) -> Found:
    """The scene in `root`, or in the model folder itself."""
    folder = find_model(root)
    if folder is None:
        raise ValueError(
            f"{root}: no COLMAP model; expected sparse/0/cameras.bin (or .txt) with images and points3D beside it"
        )
    model = read_model(folder, options.use_pycolmap)
    if not model.images:
        raise ValueError(f"{folder}: the model has no posed images (images.bin or images.txt)")
    order = sorted(model.images, key=lambda key: model.images[key].name)
    home = folder if root == folder else root
    photos = photo_folder(home, options.downscale)
    full_width = (
        model.cameras[model.images[order[0]].camera_id].width
        if model.images[order[0]].camera_id in model.cameras
        else 0
    )
    paths = [find_photo(home, photos, model.images[key].name, str(folder)) for key in order]
    if options.save_resized and options.downscale and full_width:
        paths = saved_smaller(home, paths, full_width, options.downscale)
    frames = [_frame(model, model.images[key], path) for key, path in zip(order, paths, strict=True)]
    frames = seen_by(model, frames, order)
    ranges = [frame.bounds for frame in frames if frame.bounds]
    if not ranges:
        raise ValueError(f"{folder}: no photo sees any 3D point, so the depth range is unknown; is points3D there?")
    return Found(
        name=home.resolve().name,
        format="COLMAP",
        frames=frames,
        near=min(r[0] for r in ranges),
        far=max(r[1] for r in ranges),
        full_width=full_width,
        points=Points(model.points.xyz, model.points.rgb, model.points.error),
        notes=_left_over(photos, len(paths)),
    )


def find_photo(root: Path, folder: Path, name: str, where: str) -> Path:
    """The photo called `name`, in `folder`, with this or another suffix."""
    relative = folder.resolve().relative_to(root.resolve())
    for suffix in SUFFIXES:
        trial = name if not suffix else str(Path(name).with_suffix(suffix))
        path = inside(root, str(relative / trial), f"{where}: image {name!r}"[:300])
        if path.is_file():
            return path
    raise ValueError(
        f"{where}: the photo {name!r:.200} is missing from {folder}; restore it or rebuild the model without it"
    )


def camera_pose(image: ModelImage, where: str) -> np.ndarray:
    """COLMAP's world-to-camera → our camera-to-world (3, 4)."""
    norm = np.hypot.reduce(image.quaternion)
    if not (np.isfinite(norm) and norm > 1e-9):
        raise ValueError(f"{where}: the pose's quaternion is zero, NaN or infinite")
    w, x, y, z = image.quaternion / norm
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    with np.errstate(over="ignore", invalid="ignore"):
        position = -rotation.T @ image.translation
    return pose(np.concatenate([rotation.T * [1, -1, -1], position[:, None]], axis=1), where)


def pinhole(camera: ModelCamera, to_world: np.ndarray, where: str) -> tuple[Camera, Distortion]:
    """COLMAP's parameters → pinhole part and distortion."""
    p = [number(value, f"{where}: camera parameter") for value in camera.params]
    if camera.model == "SIMPLE_PINHOLE":
        fx, fy, cx, cy, bent = p[0], p[0], p[1], p[2], Distortion()
    elif camera.model == "PINHOLE":
        fx, fy, cx, cy, bent = *p, Distortion()
    elif camera.model == "SIMPLE_RADIAL":
        fx, fy, cx, cy, bent = p[0], p[0], p[1], p[2], Distortion(k1=p[3])
    elif camera.model == "RADIAL":
        fx, fy, cx, cy, bent = p[0], p[0], p[1], p[2], Distortion(k1=p[3], k2=p[4])
    elif camera.model == "OPENCV":
        fx, fy, cx, cy, bent = *p[:4], Distortion(*p[4:8])
    else:
        raise ValueError(f"{where}: the camera model {camera.model} is not read; run COLMAP's image_undistorter first")
    if min(fx, fy) <= SMALLEST_NUMBER:
        raise ValueError(f"{where}: the focal length must be larger than 0, found {min(fx, fy):g}")
    return Camera(to_world, fx, fy, cx, cy, camera.width, camera.height), bent


def reproject(model: Model, image: ModelImage) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N,) of the points that an image sees and their errors (N,) in pixels of the model's camera, distortion
    included."""
    rows = {int(key): row for row, key in enumerate(model.points.ids)}
    known = np.array([rows.get(int(key), -1) for key in image.point_ids], dtype=np.int64)
    seen, xy = known[known >= 0], image.xy[known >= 0]
    where = f"{model.folder}: image {image.name!r}"
    camera, bent = pinhole(model.cameras[image.camera_id], camera_pose(image, where), where)
    unit = replace(camera, fx=1.0, fy=1.0, cx=0.0, cy=0.0)
    with np.errstate(all="ignore"):
        x, y = bent.bend(*unit.project(model.points.xyz[seen])[0].T)
        error = np.hypot(camera.cx + camera.fx * x - xy[:, 0], camera.cy + camera.fy * y - xy[:, 1])
    keep = np.isfinite(error)
    return seen[keep], error[keep]


def seen_by(model: Model, frames: list[Frame], order: list[int]) -> list[Frame]:
    """The frames with their visible points, pixel errors and, where they lack one, a depth range."""
    result = []
    for frame, key in zip(frames, order, strict=True):
        image = model.images.get(key)
        if image is None:
            seen = np.unique(model.points.track_point[model.points.track_image == key])
            error = None
        else:
            seen, error = reproject(model, image)
            seen, first = np.unique(seen, return_index=True)
            error = error[first] * frame.camera.fx / model.cameras[image.camera_id].params[0]
        depth = frame.camera.project(model.points.xyz[seen])[1]
        bounds = frame.bounds or depth_range(depth)
        result.append(replace(frame, seen=seen, seen_error=error, bounds=bounds))
    return result


def _frame(model: Model, image: ModelImage, path: Path) -> Frame:
    where = f"{model.folder}: image {image.name!r:.200}"
    if image.camera_id not in model.cameras:
        raise ValueError(f"{where}: its camera {image.camera_id} is not in the model")
    camera, bent = pinhole(model.cameras[image.camera_id], camera_pose(image, where), where)
    source: Source = picture_at(path, (camera.width, camera.height), where)
    camera = camera.resized(source.width, source.height)  # type: ignore[attr-defined]
    straight, zoom = straighten(camera, bent, where)
    if bent:
        source = Undistorted(source, bent, (camera.fx, camera.fy), (camera.cx, camera.cy), zoom)
    return Frame(image.name, straight, source)


def _left_over(folder: Path, used: int) -> tuple[str, ...]:
    count = sum(path.is_file() and not path.name.startswith(".") for path in folder.iterdir())
    return (f"{count - used} of {count} files in {folder.name} have no pose and are left out",) if count > used else ()
