"""A COLMAP model and the prepared photos → a Scene: undistorted photos of one size, points with colours.

Structure from motion knows neither up nor scale. The scene is rotated and moved so that the mean camera is at the
origin and looks along −z with y up; a known distance between two cameras makes its unit the metre.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dofnerf.camera import Camera
from dofnerf.capture.photos import Photo
from dofnerf.scenes.colmap_model import Model, ModelPoints, camera_pose, pinhole, read_model, seen_by
from dofnerf.scenes.distortion import straighten, undistorted
from dofnerf.scenes.masks import MaskFile
from dofnerf.scenes.reading import common_bounds, every_place, scaled
from dofnerf.scenes.scene import Frame, Scene
from dofnerf.scenes.source import Cropped, PictureFile

_WORST_ERROR, _TRACK = 2.0, 3  # pixels and photos: what a point needs, if enough points have it
_ENOUGH = 300


@dataclass(frozen=True)
class ScaleBy:
    """The cameras of photos `one` and `other` (names, or numbers from 0) stood `metres` apart."""

    one: str
    other: str
    metres: float

    def find(self, files: Sequence[str]) -> tuple[int, int]:
        """The numbers of the two among the input photos, whose file names are given in order."""
        one, other = (_number_of(which, files) for which in (self.one, self.other))
        if one == other:
            raise ValueError(f"--scale-by: {self.one} and {self.other} are one photo; name two")
        return one, other

    def words(self, files: Sequence[str]) -> str:
        """Which two were meant."""
        one, other = (files[number] for number in self.find(files))
        return f"{one} and {other} were taken {self.metres:g} m apart"

    @classmethod
    def parse(cls, text: str) -> ScaleBy:
        """From "A,B,METRES"."""
        words = [word.strip() for word in text.split(",")]
        try:
            one, other, length = words
            metres = float(length)
        except ValueError:
            expected = "A,B,METRES: two photos and the distance between them"
            raise ValueError(f"--scale-by {text}: expected {expected}") from None
        if not (0 < metres < 1e6) or one == other:
            raise ValueError(f"--scale-by {text}: expected two different photos and a distance above 0")
        return cls(one, other, metres)


def _number_of(which: str, files: Sequence[str]) -> int:
    for names in (list(files), [Path(file).stem for file in files]):
        if which in names:
            return names.index(which)
    if which.isdecimal() and int(which) < len(files):
        return int(which)
    ways = f"name two by their file names, or their numbers from 0 to {len(files) - 1}"
    raise ValueError(f"--scale-by: there is no photo {which}; {ways}")


def assemble(
    folder: Path, photos: Sequence[Photo], name: str, hold_every: int = 9, brackets: Sequence[Sequence[str]] = ()
) -> Scene:
    """The scene of the model in `folder`, whose images are called NAME.png; every n-th view is held out, 0 for none.
    `brackets` are names of photos that were taken from one place."""
    by_name = {photo.name: photo for photo in photos}
    model = _thinned(_in_photo_pixels(read_model(folder), by_name))
    order = sorted(model.images, key=lambda key: model.images[key].name)
    frames = [_frame(model, key, by_name[Path(model.images[key].name).stem]) for key in order]
    frames = seen_by(model, frames, order)
    size = Counter((frame.camera.width, frame.camera.height) for frame in frames).most_common(1)[0][0]
    place = {name: members[0] for members in brackets for name in members}
    frames = [replace(_fitted(frame, size), bracket=place.get(frame.name)) for frame in frames]
    bounds, (train, test) = common_bounds(frames, str(folder)), split(frames, hold_every)
    linear = all(photo.source.suffix.lower() in (".exr", ".hdr") for photo in photos)
    whole = Scene(name, "capture", tuple(frames), *bounds, train, test, model.sparse_points(), from_linear=linear)
    return upright(whole)


def split(frames: Sequence[Frame], hold_every: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Views to train on and views held out: from the fifth on every n-th, 0 for none."""
    test = every_place(frames, 4, hold_every) if hold_every else ()
    return tuple(i for i in range(len(frames)) if i not in test), test


def _in_photo_pixels(model: Model, photos: dict[str, Photo]) -> Model:
    """With the points' errors in pixels of the photos, not of the enlarged or small copies that features came from."""
    images = model.images.values()
    enlarged = np.median([model.cameras[i.camera_id].width / photos[Path(i.name).stem].size[0] for i in images])
    return replace(model, points=replace(model.points, error=model.points.error / enlarged))


def _thinned(model: Model) -> Model:
    """Without points that are likely to be wrong matches, where enough others are left."""
    points = model.points
    count = np.bincount(points.track_point, minlength=len(points.ids))
    keep = (points.error < _WORST_ERROR) & (count >= _TRACK)
    if keep.sum() < _ENOUGH:
        return model
    row = np.cumsum(keep) - 1
    tracks = keep[points.track_point]
    thin = ModelPoints(
        points.ids[keep], points.xyz[keep], points.rgb[keep], points.error[keep],
        row[points.track_point[tracks]], points.track_image[tracks],
    )  # fmt: skip
    return replace(model, points=thin)


def _frame(model: Model, key: int, photo: Photo) -> Frame:
    image = model.images[key]
    where = f"{model.folder}: image {image.name}"
    camera, distortion = pinhole(model.cameras[image.camera_id], camera_pose(image, where), where)
    camera = camera.resized(*photo.size)
    straight, zoom = straighten(camera, distortion, where)
    mask = None if photo.mask is None else MaskFile(photo.mask, *photo.size)
    frame = Frame(
        photo.name, camera, PictureFile(photo.deep or photo.file, *photo.size), exif=photo.exif or None, mask=mask
    )
    return frame.converted(straight, lambda source: undistorted(source, distortion, camera, zoom), 1.0)


def _fitted(frame: Frame, size: tuple[int, int]) -> Frame:
    """The view at the common size (width, height): its middle, where it has another shape."""
    camera = frame.camera
    share = min(camera.width / size[0], camera.height / size[1])
    width, height = round(size[0] * share), round(size[1] * share)
    if (width, height) != (camera.width, camera.height):
        left, top = (camera.width - width) // 2, (camera.height - height) // 2
        camera = replace(camera, cx=camera.cx - left, cy=camera.cy - top, width=width, height=height)
        frame = frame.converted(camera, lambda source: Cropped(source, width, height), 1.0)
    return scaled(frame, *size)


def upright(scene: Scene) -> Scene:
    """The same scene, turned and moved to the mean camera's axes and place."""
    poses = np.stack([frame.camera.camera_to_world for frame in scene.frames])
    u, _, vt = np.linalg.svd(poses[:, :, :3].mean(axis=0))
    turn = (u @ np.diag([1, 1, np.linalg.det(u @ vt)]) @ vt).T
    return moved(scene, turn, -turn @ poses[:, :, 3].mean(axis=0), 1.0)


def moved(scene: Scene, turn: np.ndarray, shift: np.ndarray, scale: float) -> Scene:
    """x → scale · (turn x + shift) for cameras and points; depths scale, too."""

    def pose(camera: Camera) -> Camera:
        place = scale * (turn @ camera.position + shift)
        axes = turn @ camera.camera_to_world[:, :3]
        return replace(camera, camera_to_world=np.concatenate([axes, place[:, None]], axis=1))

    frames = tuple(
        replace(f, camera=pose(f.camera), bounds=f.bounds and (f.bounds[0] * scale, f.bounds[1] * scale))
        for f in scene.frames
    )
    points = scene.points and replace(scene.points, xyz=scale * (scene.points.xyz @ turn.T + shift))
    return replace(scene, frames=frames, points=points, near=scene.near * scale, far=scene.far * scale)


def scaled_by(scene: Scene, by: ScaleBy, inputs: Sequence[tuple[str, str | None]]) -> Scene:
    """The scene in metres; `inputs` are all photos in order: the file's name, and the frame's if it was used."""
    stems = [Path(frame.name).stem for frame in scene.frames]

    def position(number: int) -> np.ndarray:
        file, name = inputs[number]
        if name not in stems:
            raise ValueError(f"--scale-by: photo {number}, {file}, has no pose; name two that have one")
        return scene.camera(stems.index(name)).position

    one, other = by.find([file for file, _ in inputs])
    apart = float(np.linalg.norm(position(one) - position(other)))
    if apart <= 1e-9:
        raise ValueError(f"--scale-by: photos {by.one} and {by.other} were taken from one place; choose two others")
    return replace(moved(scene, np.eye(3), np.zeros(3), by.metres / apart), metres=1.0)


def coloured(scene: Scene) -> Scene:
    """The scene with the points' colours: the mean of the photos that see them."""
    if scene.points is None:
        return scene
    light, count = np.zeros((len(scene.points), 3)), np.zeros(len(scene.points))
    for i in range(len(scene)):
        seen = scene.visible(i)
        column, row = seen.pixels.astype(int).T
        np.add.at(light, seen.ids, scene.photo(i)[row, column])
        np.add.at(count, seen.ids, 1)
    rgb = np.where(count[:, None] > 0, light / np.maximum(count, 1)[:, None], 0.5)
    return replace(scene, points=replace(scene.points, rgb=(255 * rgb + 0.5).astype(np.uint8)))
