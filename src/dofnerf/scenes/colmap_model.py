"""COLMAP models: files → plain arrays → our cameras, and which points a photo sees.

Cameras, images and points3D are each binary (.bin) or text (.txt). Every count and name in a file is checked against
what the file can hold. `images` may be absent (LLFF's published scenes lack it): the points' tracks still say which
image ids see them. Not read by pycolmap: with it imported, Pillow's PNG writer can crash.

COLMAP stores world-to-camera with OpenCV's axes (y down, z forward) and pixel centres at +0.5; `camera_pose` gives our
camera-to-world (OpenGL axes).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files.guard import SMALLEST_NUMBER, first_line, number, pose, read_bytes, read_text, shown
from dofnerf.scenes.distortion import Distortion
from dofnerf.scenes.reading import depth_range
from dofnerf.scenes.scene import Frame, Points

# COLMAP's numbering: name and count of parameters.
MODELS = (
    ("SIMPLE_PINHOLE", 3), ("PINHOLE", 4), ("SIMPLE_RADIAL", 4), ("RADIAL", 5), ("OPENCV", 8), ("OPENCV_FISHEYE", 8),
    ("FULL_OPENCV", 12), ("FOV", 5), ("SIMPLE_RADIAL_FISHEYE", 4), ("RADIAL_FISHEYE", 5), ("THIN_PRISM_FISHEYE", 12),
)  # fmt: skip
COUNTS = dict(MODELS)


@dataclass(frozen=True)
class ModelCamera:
    """Camera `model` by COLMAP's name, size in pixels and COLMAP's parameters."""

    model: str
    width: int
    height: int
    params: tuple[float, ...]


@dataclass(frozen=True)
class ModelImage:
    """World-to-camera quaternion (w, x, y, z) and translation; key points `xy` (N, 2), `point_ids` (N,) or −1."""

    name: str
    camera_id: int
    quaternion: np.ndarray
    translation: np.ndarray
    xy: np.ndarray
    point_ids: np.ndarray


@dataclass(frozen=True)
class ModelPoints:
    """`ids` (P,), `xyz` (P, 3), `rgb` (P, 3) uint8, `error` (P,) px; tracks: a row of `track_point`, an id of
    `track_image`."""

    ids: np.ndarray
    xyz: np.ndarray
    rgb: np.ndarray
    error: np.ndarray
    track_point: np.ndarray
    track_image: np.ndarray


@dataclass(frozen=True)
class Model:
    """One reconstruction, ids as COLMAP gave them."""

    folder: Path
    cameras: dict[int, ModelCamera]
    images: dict[int, ModelImage]
    points: ModelPoints

    def sparse_points(self) -> Points:
        """The points without their tracks."""
        return Points(self.points.xyz, self.points.rgb, self.points.error)


def find_model(root: Path) -> Path | None:
    """The folder below `root` that holds cameras.bin or cameras.txt, at the usual places."""
    for place in ("sparse/0", "sparse", "colmap/sparse/0", "colmap/sparse", "."):
        if any((root / place / f"cameras.{suffix}").is_file() for suffix in ("bin", "txt")):
            if not (root / place).resolve().is_relative_to(root.resolve()):
                raise ValueError(f"{root / place}: leads outside the scene folder; copy the model into it")
            return root / place
    return None


def read_model(folder: Path) -> Model:
    """Read one model; binary files win over text files of the same name."""
    cameras = _read(folder, "cameras", _cameras_binary, _cameras_text)
    if cameras is None:
        raise ValueError(f"{folder}: no cameras.bin or cameras.txt")
    images = _read(folder, "images", _images_binary, _images_text) or {}
    rows = _read(folder, "points3D", _points_binary, _points_text) or []
    return Model(folder, cameras, images, _points(folder, rows))


def _read(folder: Path, stem: str, binary: Any, text: Any) -> Any:
    for suffix, parse in ((".bin", lambda p: binary(_Reader(read_bytes(p)))), (".txt", lambda p: text(_lines(p)))):
        path = folder / (stem + suffix)
        if path.is_file():
            if not path.resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"{path}: leads outside the scene folder")
            try:
                return parse(path)
            except OSError:
                raise
            except (ValueError, KeyError, IndexError, OverflowError, struct.error) as error:
                raise ValueError(f"{path}: not a COLMAP {stem} file, or a damaged one ({first_line(error)})") from None
    return None


class _Reader:
    """A cursor over little-endian bytes that refuses to run past the end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def values(self, layout: str) -> tuple[Any, ...]:
        result = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return result

    def count(self, at_least: int) -> int:
        (count,) = self.values("Q")
        if count * at_least > len(self.data) - self.at:
            raise ValueError(f"it claims {count} entries, the file is too short for that")
        return count

    def array(self, dtype: Any, count: int) -> np.ndarray:
        result = np.frombuffer(self.data, dtype=dtype, count=count, offset=self.at)
        self.at += result.nbytes
        return result

    def word(self) -> str:
        end = self.data.index(b"\0", self.at)
        text = self.data[self.at : end].decode("utf-8")
        self.at = end + 1
        return text


def _camera(model: str, width: int, height: int, params: tuple[float, ...]) -> ModelCamera:
    if not (0 < width < 1 << 20 and 0 < height < 1 << 20):
        raise ValueError(f"a camera of {width}×{height} pixels")
    if len(params) != COUNTS[model]:
        raise ValueError(f"{model} with {len(params)} parameters, expected {COUNTS[model]}")
    return ModelCamera(model, width, height, params)


def _cameras_binary(file: _Reader) -> dict[int, ModelCamera]:
    cameras = {}
    for _ in range(file.count(24)):
        key, model, width, height = file.values("IiQQ")
        if not 0 <= model < len(MODELS):
            raise ValueError(f"camera {key} has the unknown model number {model}")
        name, count = MODELS[model]
        cameras[key] = _camera(name, width, height, file.values(f"{count}d"))
    return cameras


def _cameras_text(lines: list[str]) -> dict[int, ModelCamera]:
    cameras = {}
    for line in filter(None, lines):
        key, model, width, height, *params = line.split()
        if model not in COUNTS:
            raise ValueError(f"camera {shown(key)} has the unknown model {shown(model)}")
        cameras[_id(key, 32)] = _camera(model, int(width), int(height), tuple(map(float, params)))
    return cameras


def _images_binary(file: _Reader) -> dict[int, ModelImage]:
    images = {}
    for _ in range(file.count(73)):
        (key,) = file.values("I")
        pose = np.array(file.values("7d"))
        (camera,) = file.values("I")
        name = file.word()
        keys = file.array(np.dtype([("xy", "<f8", 2), ("id", "<i8")]), file.count(24))
        images[key] = ModelImage(name, camera, pose[:4], pose[4:], keys["xy"].copy(), keys["id"].copy())
    return images


def _images_text(lines: list[str]) -> dict[int, ModelImage]:
    images = {}
    first = next((i for i, line in enumerate(lines) if line), len(lines))
    lines = lines[first:]
    # Two lines an image; the second may be empty, so empty lines count here.
    for head, tail in zip(lines[::2], [*lines[1::2], ""], strict=False):
        if not head:
            continue
        key, *pose, camera, name = head.split(maxsplit=9)
        keys = np.array(tail.split(), dtype=np.float64).reshape(-1, 3)
        place = np.array(pose, dtype=np.float64)
        if place.shape != (7,):
            raise ValueError(f"image {shown(key)} has {len(pose)} pose values, expected 7")
        if not (np.abs(keys[:, 2]) < 1 << 63).all():
            raise ValueError(f"image {shown(key)} sees a point whose number is not usable")
        seen = keys[:, 2].astype(np.int64)
        images[_id(key, 32)] = ModelImage(name, _id(camera, 32), place[:4], place[4:], keys[:, :2], seen)
    return images


def _id(text: str | int, bits: int) -> int:
    """A number by which a model names a camera, an image or a point: COLMAP's have no sign and so many bits."""
    value = int(text)
    if not 0 <= value < 1 << bits:
        raise ValueError(f"the id {shown(value)} is not between 0 and 2^{bits}")
    return value


def _points_binary(file: _Reader) -> list[tuple[Any, ...]]:
    rows = []
    for _ in range(file.count(51)):
        key, x, y, z, r, g, b, error = file.values("Q3d3Bd")
        track = file.array("<u4", 2 * file.count(8))[::2]
        rows.append((_id(key, 63), (x, y, z), (r, g, b), error, track))
    return rows


def _points_text(lines: list[str]) -> list[tuple[Any, ...]]:
    rows = []
    for line in filter(None, lines):
        words = line.split()
        x, y, z, error = (float(words[i]) for i in (1, 2, 3, 7))
        rgb = tuple(min(max(int(w), 0), 255) for w in words[4:7])
        track = np.array([_id(word, 32) for word in words[8::2]], dtype=np.uint32)
        rows.append((_id(words[0], 63), (x, y, z), rgb, error, track))
    return rows


def _points(folder: Path, rows: list[tuple[Any, ...]]) -> ModelPoints:
    tracks = [row[4] for row in rows]
    xyz = np.array([row[1] for row in rows], dtype=np.float64).reshape(-1, 3)
    error = np.array([row[3] for row in rows], dtype=np.float64)
    if not (np.isfinite(xyz).all() and np.isfinite(error).all() and np.abs(xyz).max(initial=0) < 1e12):
        raise ValueError(f"{folder / 'points3D'}: a point is NaN, infinite or absurdly far away")
    return ModelPoints(
        ids=np.array([row[0] for row in rows], dtype=np.int64),
        xyz=xyz,
        rgb=np.array([row[2] for row in rows], dtype=np.uint8).reshape(-1, 3),
        error=error,
        track_point=np.repeat(np.arange(len(rows)), [len(t) for t in tracks]),
        track_image=np.concatenate(tracks).astype(np.int64) if tracks else np.zeros(0, dtype=np.int64),
    )


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in read_text(path).split("\n") if not line.startswith("#")]


def camera_pose(image: ModelImage, where: str) -> np.ndarray:
    """COLMAP's world-to-camera → our camera-to-world (3, 4)."""
    norm = np.hypot.reduce(image.quaternion)
    if not (np.isfinite(norm) and norm > 1e-9):
        raise ValueError(f"{where}: the pose's quaternion is zero, NaN or infinite")
    w, x, y, z = image.quaternion / norm  # not by SciPy, whose other formula gives other last bits
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
    if camera.model in ("SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL"):
        p = [p[0], *p]  # one focal length for both axes
    elif camera.model not in ("PINHOLE", "OPENCV"):
        raise ValueError(f"{where}: the camera model {camera.model} is not read; run COLMAP's image_undistorter first")
    fx, fy, cx, cy, *distortion = p
    if min(fx, fy) <= SMALLEST_NUMBER:
        raise ValueError(f"{where}: the focal length must be larger than 0, found {min(fx, fy):g}")
    return Camera(to_world, fx, fy, cx, cy, camera.width, camera.height), Distortion(*distortion)


def reproject(model: Model, image: ModelImage) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N,) of the points that an image sees, their errors (N,) in pixels of the distorted camera."""
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
