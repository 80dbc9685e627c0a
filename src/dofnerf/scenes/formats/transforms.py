"""transforms.json in its flavours: nerfstudio, instant-ngp, Blender, and our own fields beside theirs
(docs/formats.md).

`transform_matrix` is camera-to-world with OpenGL axes, as ours. Intrinsics stand per frame or once for all: focal
length as fl_x (fl_y) or camera_angle_x (camera_angle_y), principal point cx, cy, distortion k1, k2, k3, p1, p2, size w,
h. Blender's split comes as transforms_train.json and transforms_test.json, nerfstudio's as train_filenames and
test_filenames.
"""

from __future__ import annotations

import math
from collections import ChainMap
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files import image_size
from dofnerf.files.guard import (
    LARGEST_SIDE,
    bounds,
    inside,
    number,
    pose,
    read_array,
    read_json,
    read_json_value,
    shown,
)
from dofnerf.files.ply import read_ply
from dofnerf.optics.lens import Lens
from dofnerf.scenes.distortion import Distortion, straighten, undistorted
from dofnerf.scenes.exif import Exif
from dofnerf.scenes.masks import alpha_mask, file_beside, given_mask
from dofnerf.scenes.reading import Found, ReadOptions, guess_bounds, with_bounds
from dofnerf.scenes.scene import Frame, Points, Viewpoint
from dofnerf.scenes.source import DepthFile, PictureFile, Source

SUFFIXES = ("", ".png", ".jpg", ".jpeg", ".JPG", ".PNG", ".exr")
FLAT_MODELS = ("PINHOLE", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "PERSPECTIVE")
_BLENDER = tuple(f"transforms_{part}.json" for part in ("train", "test", "val"))
name, order = "transforms", 10


def detects(path: Path) -> bool:
    """Whether it is a JSON file, or a folder with one of these names."""
    return path.suffix == ".json" if path.is_file() else bool(find_files(path))


def find_files(folder: Path) -> list[Path]:
    """The scene's JSON files: transforms.json, or Blender's train and test (else val) files."""
    whole = folder / "transforms.json"
    if whole.is_file():
        return [whole]
    train, test, val = (folder / name for name in _BLENDER)
    return [path for path in (train, test if test.is_file() else val) if path.is_file()] if train.is_file() else []


def read(path: Path, options: ReadOptions) -> Found:
    """The scene of a folder, or of one JSON file."""
    files = [path] if path.is_file() else find_files(path)
    if not files:
        raise ValueError(f"{path}: no transforms.json (or transforms_train.json)")
    root = files[0].parent
    frames: list[Frame] = []
    test: set[str] | None = None
    contents = [read_json(inside(root, file.name, str(file))) for file in files]
    for file, content in zip(files, contents, strict=True):
        own = _frames(root, file, content)
        frames += own
        if file != files[0]:
            test = {frame.name for frame in own}
    data = contents[0]
    points = _points(root, files[0], data)
    test = _listed_split(files[0], data, frames) if test is None else test
    span, notes = _given_bounds(data, str(files[0])), _notes(files[0], data)
    frames = with_bounds(frames, points, str(files[0]))
    range_from: Literal["file", "points", "cameras"] = "file" if span is not None else "points"
    if span is None and not any(frame.bounds for frame in frames):
        span, range_from = guess_bounds([frame.camera for frame in frames]), "cameras"
        note = "the file gives no depth range (near, far): a guess from the cameras, until training measures it"
        notes = (note, *notes)
    held = None if test is None else frozenset(test)
    metres = None if data.get("metres") is None else number(data["metres"], f"{files[0]}: metres", positive=True)
    name = root.resolve().name
    linear = data.get("linear") is True
    return Found(name, "transforms.json", frames, span, None, points, held, notes, metres, range_from, linear)


def _given_bounds(data: dict[str, Any], where: str) -> tuple[float, float] | None:
    given = data.get("near"), data.get("far")
    return None if given == (None, None) else bounds(*given, where)


def read_cameras(path: Path | str) -> list[Viewpoint]:
    """The cameras, at least one, of a transforms.json or of the cameras.json of 3D Gaussian Splatting.

    The latter is a list, one entry a photo: img_name, width, height, fx, fy, position (3), rotation (3, 3)
    camera-to-world with the axes of OpenCV (x right, y down, z ahead).
    """
    path = Path(path)
    data = read_json_value(path)
    if isinstance(data, dict):
        return _viewpoints(path, data)
    if not isinstance(data, list) or not data:
        raise ValueError(f"{path}: expected a transforms.json with frames, or a list of cameras, found {shown(data)}")
    return [_listed(entry, i, f"{path}: camera {i}") for i, entry in enumerate(data)]


def _listed(entry: Any, i: int, where: str) -> Viewpoint:
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: expected an object, found {shown(entry)}")
    keys = "fx", "fy", "width", "height"
    fx, fy, width, height = (number(entry.get(key), f"{where}: {key}", positive=True) for key in keys)
    _check_size(width, height, where)
    try:
        position = np.array(entry["position"], float).reshape(3, 1)
        matrix = np.concatenate([np.array(entry["rotation"], float), position], axis=1)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ValueError(f"{where}: expected a position of 3 numbers and a rotation of 3×3") from None
    to_world = pose(matrix, where) * [1, -1, -1, 1]  # OpenCV → OpenGL: y and z turn round
    name = entry.get("img_name")
    camera = Camera(to_world, fx, fy, width / 2, height / 2, round(width), round(height))
    return Viewpoint(name if isinstance(name, str) and name else f"{i:04d}", camera)


def _check_size(width: float, height: float, where: str) -> None:
    if min(width, height) < 1 or max(width, height) > LARGEST_SIDE:
        raise ValueError(f"{where}: a photo of {width:g}×{height:g} pixels")


def _viewpoints(file: Path, data: dict[str, Any]) -> list[Viewpoint]:
    """The cameras of a transforms.json, whose content is `data`; photos need not be there if w and h are."""
    lists = (data[key] for key in ("test_filenames", "val_filenames") if isinstance(data.get(key), list))
    held: list[Any] = next(lists, [])
    entries = _entries(file, data)
    found = (_Entry(file.parent, file, data, entry, i).viewpoint(f"{i:04d}") for i, entry in enumerate(entries))
    return [replace(view, held_out=view.name in held) for view in found]


def _entries(file: Path, data: dict[str, Any]) -> list[dict[str, Any]]:
    entries = data.get("frames")
    if not isinstance(entries, list) or not entries:
        raise ValueError(f"{file}: expected a list of frames, found {shown(entries)}")
    for i, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise ValueError(f"{file}: frame {i}: expected an object, found {shown(entry)}")
    return entries


def _frames(root: Path, file: Path, data: dict[str, Any]) -> list[Frame]:
    frames, names = [], set()
    for i, entry in enumerate(_entries(file, data)):
        frame = _Entry(root, file, data, entry, i).frame()
        if frame.name in names:
            raise ValueError(f"{file}: frame {i}: {frame.name} is listed twice")
        names.add(frame.name)
        frames.append(frame)
    return frames


class _Entry:
    """One frame's entry; what it does not say itself, the file says for all."""

    def __init__(self, root: Path, file: Path, data: dict[str, Any], entry: dict[str, Any], i: int) -> None:
        self.root, self.entry, self.values = root, entry, ChainMap(entry, data)
        self.where = f"{file}: frame {i}"
        self.empty_is_white = file.name in _BLENDER  # what is transparent in such renders is known to be empty
        if isinstance(entry.get("file_path"), str):
            self.where += f" ({shown(entry['file_path'])[1:-1]})"

    def frame(self) -> Frame:
        path = self._file(self.entry.get("file_path"), "file_path")
        size = image_size(path)
        bent_camera, bent = self._camera(size)
        camera, zoom = straighten(bent_camera, bent, self.where)
        seen, error = self._seen()
        frame = Frame(
            name=self._name(),
            camera=bent_camera,
            photo=PictureFile(path, *size),
            lens=self._lens("lens"),
            sharp=self._picture("sharp_file_path", size),
            near=self._picture("near_file_path", size),
            far=self._picture("far_file_path", size),
            near_lens=self._lens("near_lens"),
            far_lens=self._lens("far_lens"),
            depth=self._depth(size),
            bounds=_given_bounds(self.entry, self.where),
            seen=seen,
            seen_error=error,
            exif=self._exif(),
            bracket=self._bracket(),
            mask=self._mask(path, size),
        )
        ratio = zoom * size[0] / self._size(size)[0]  # the numbers are given for the size w × h
        return frame.converted(camera, lambda source: undistorted(source, bent, bent_camera, zoom), ratio)

    def viewpoint(self, unnamed: str) -> Viewpoint:
        named = isinstance(self.entry.get("file_path"), str) and self.entry["file_path"]
        if self.values.get("w") is None or self.values.get("h") is None:
            if not named:
                raise ValueError(f"{self.where}: no size; give w and h, in pixels")
            size = image_size(self._file(self.entry["file_path"], "w and h are not given, and file_path"))
        else:
            size = self._size(None)
        bent_camera, bent = self._camera(size)
        camera, zoom = straighten(bent_camera, bent, self.where)
        lens = self._lens("lens")
        return Viewpoint(self._name() if named else unnamed, camera, lens and lens.scaled(zoom))

    def _name(self) -> str:
        return str(self.entry["file_path"]).replace("\\", "/").removeprefix("./")

    def _number(self, key: str, default: float | None = None, positive: bool = False) -> float | None:
        value = self.values.get(key)
        return default if value is None else number(value, f"{self.where}: {key}", positive)

    def _size(self, size: tuple[int, int] | None) -> tuple[int, int]:
        """The size that the intrinsics are given for; it has the shape of the photo's `size`, where there is one."""
        default = size or (None, None)
        width, height = self._number("w", default[0], True), self._number("h", default[1], True)
        assert width is not None and height is not None
        _check_size(width, height, self.where)
        if size is not None and abs(height * size[0] / width - size[1]) > max(1.5, 0.01 * size[1]):
            own = f"the photo has {size[0]}×{size[1]} pixels"
            raise ValueError(f"{self.where}: {own}, another shape than w×h = {width:g}×{height:g}")
        return round(width), round(height)

    def _camera(self, size: tuple[int, int]) -> tuple[Camera, Distortion]:
        model = self.values.get("camera_model")
        if (model is not None and model not in FLAT_MODELS) or self.values.get("is_fisheye"):
            model = shown(model or "fisheye")
            raise ValueError(f"{self.where}: the camera model {model} is not read; undistort the photos first")
        width, height = self._size(size)
        fx, fy = self._focal("fl_x", "camera_angle_x", width), self._focal("fl_y", "camera_angle_y", height)
        if fx is None and fy is None:
            raise ValueError(f"{self.where}: no focal length; give fl_x or camera_angle_x")
        cx, cy = self._number("cx", width / 2), self._number("cy", height / 2)
        if self._number("k4", 0.0):
            raise ValueError(f"{self.where}: distortion k4 is not read; undistort the photos first")
        bent = Distortion(**{key: self._number(key, 0.0) or 0.0 for key in ("k1", "k2", "p1", "p2", "k3")})
        to_world = pose(self.entry.get("transform_matrix"), self.where)
        camera = Camera(to_world, fx or fy or 0, fy or fx or 0, cx or 0.0, cy or 0.0, width, height)
        return camera.resized(*size), bent

    def _focal(self, key: str, angle_key: str, extent: int) -> float | None:
        focal, angle = self._number(key, positive=True), self._number(angle_key, positive=True)
        if focal is None and angle is not None:
            if angle > math.pi - 0.01:
                raise ValueError(f"{self.where}: {angle_key} is an angle in radians below π, found {angle:g}")
            return 0.5 * extent / math.tan(0.5 * angle)
        return focal

    def _file(self, name: Any, key: str) -> Path:
        where = f"{self.where}: {key}"
        for suffix in SUFFIXES:
            path = inside(self.root, name + suffix if isinstance(name, str) else name, where)
            if path.is_file():
                return path
        raise ValueError(f"{where}: the file {shown(name)} is missing")

    def _picture(self, key: str, size: tuple[int, int]) -> PictureFile | None:
        if self.entry.get(key) is None:
            return None
        path = self._file(self.entry[key], key)
        if image_size(path) != size:
            raise ValueError(f"{self.where}: {key} has another size than the photo; a view's pictures have one size")
        return PictureFile(path, *size)

    def _depth(self, size: tuple[int, int]) -> DepthFile | None:
        if self.entry.get("depth_file_path") is None:
            return None
        path = self._file(self.entry["depth_file_path"], "depth_file_path")
        unit = self._number("depth_unit_scale_factor", 1e-3, True)
        return DepthFile(path, *size, unit=unit or 1e-3)

    def _lens(self, key: str) -> Lens | None:
        value = self.entry.get(key)
        if value is None:
            return None
        where = f"{self.where}: {key}"
        if not isinstance(value, dict) or "aperture" not in value:
            raise ValueError(f"{where}: expected an object with aperture and focus_depth, found {shown(value)}")
        aperture = number(value["aperture"], f"{where}: aperture")
        if aperture < 0:
            raise ValueError(f"{where}: aperture must not be negative, found {aperture:g}")
        focus = value.get("focus_depth")
        at_infinity = focus is None or focus == math.inf
        return Lens(aperture, math.inf if at_infinity else number(focus, f"{where}: focus_depth", positive=True))

    def _exif(self) -> Exif | None:
        value = self.entry.get("exif")
        return (Exif.from_plain(value) or None) if isinstance(value, dict) else None

    def _bracket(self) -> str | None:
        value = self.entry.get("bracket")
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return None if value is None else str(value)
        if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= 200:
            raise ValueError(f"{self.where}: bracket: expected a name, found {shown(value)}")
        return value

    def _mask(self, photo: Path, size: tuple[int, int]) -> Source | None:
        if self.entry.get("mask_path") is not None:
            return given_mask(self._file(self.entry["mask_path"], "mask_path"), size, self.where)
        name = photo.relative_to(self.root.resolve())
        for below in (name.as_posix(), "/".join(name.parts[1:])):  # masks/images/NAME.png, or masks/NAME.png
            if below and (path := file_beside(self.root, below)) is not None:
                return given_mask(path, size, self.where)
        return None if self.empty_is_white else alpha_mask(photo, size)

    def _seen(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        if self.entry.get("visible_file_path") is None:
            return None, None
        path = self._file(self.entry["visible_file_path"], "visible_file_path")
        table = read_array(path)
        if table.ndim != 2 or table.shape[1] != 2 or not np.isfinite(table).all() or (np.abs(table) > 1e9).any():
            raise ValueError(f"{self.where}: {path} must hold a row (number, error in pixels) for each visible point")
        return table[:, 0].astype(np.int64), table[:, 1]


def _points(root: Path, file: Path, data: dict[str, Any]) -> Points | None:
    key = next((k for k in ("points_file", "ply_file_path") if data.get(k) is not None), None)
    if key is None:
        return None
    path = inside(root, data[key], f"{file}: {key}")
    if not path.is_file():
        raise ValueError(f"{file}: {key}: the file {shown(data[key])} is missing")
    return read_ply(path)


def _notes(file: Path, data: dict[str, Any]) -> tuple[str, ...]:
    notes = data.get("notes") or []
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError(f"{file}: notes: expected a list of lines, found {shown(notes)}")
    return tuple("".join(c if c.isprintable() else " " for c in note)[:300] for note in notes[:50])


def _listed_split(file: Path, data: dict[str, Any], frames: list[Frame]) -> set[str] | None:
    lists: dict[str, set[str]] = {}
    known = {frame.name for frame in frames}
    for part in ("train", "val", "test"):
        names = data.get(f"{part}_filenames")
        if names is None:
            continue
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{file}: {part}_filenames: expected a list of file names, found {shown(names)}")
        lists[part] = {name.replace("\\", "/").removeprefix("./") for name in names}
        if strange := sorted(lists[part] - known):
            raise ValueError(f"{file}: {part}_filenames: {shown(strange[0])} is not among the frames")
    if "test" in lists or "val" in lists:
        return lists.get("test") or lists.get("val") or set()
    return known - lists["train"] if "train" in lists else None
