"""A grid of photos (view_RR_CC.jpg) → a scene whose lens is known exactly, from real photos.

Geometry. Cameras sit in one plane, all looking along −z; one step in the column index c moves the camera by `baseline`
B to the right, one step in the row index r by B down. The photos are rectified to a plane within the scene, so from
view to view a point at depth z moves by

    δ(z) = κ − f·B / z        pixels per step, columns and rows alike,

which is a pinhole with focal length f whose principal point shifts by κ per step. Only δ is seen in the photos: f and
the depths of the nearest and the farthest point are free, and with them B and κ follow from the range of δ. We choose f
= 1.5 widths and depths 2 to 5. (If δ is larger for near things, the grid runs the other way: B is negative.)

A lens. Averaging, in linear light, the neighbours at steps Δ of a view, each shifted by δ_F·Δ, is what a lens of that
shape focused at δ_F sees: a point at δ spreads over spots (δ − δ_F)·Δ. Neighbours count by how much of their cell a
disc of `lens_views` views covers. A disc of radius R steps has variance R²/4 per axis, which defines R here; then

    radius in pixels = R·|δ − δ_F| = f·|B|·R · |1/z_F − 1/z|,    so    aperture = f·|B|·R.

The spots are a view's step apart: where they lie more than a pixel or two apart in the photo, read it at a smaller
width.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files import image_size
from dofnerf.files.guard import inside, number, read_json
from dofnerf.optics.lens import Lens
from dofnerf.scenes.distortion import catmull_rom
from dofnerf.scenes.photos import pictures_in
from dofnerf.scenes.reading import Found, ReadOptions
from dofnerf.scenes.scene import Frame
from dofnerf.scenes.source import PictureFile, to_display, to_linear

FOCAL_WIDTHS = 1.5
NEAREST, FARTHEST = 2.0, 5.0
# Focus planes as fractions of the disparity range from near to far (the paper's 0.9 and 0.1).
FOCUS_NEAR, FOCUS_FAR = 0.1, 0.9

Grid = dict[tuple[int, int], Path]
name, order = "lightfield", 50


def detects(path: Path) -> bool:
    """Whether there are photos of a grid."""
    return path.is_dir() and bool(find_views(path))


@dataclass(frozen=True)
class ShiftedAverage:
    """The weighted average, in linear light, of views shifted by (column, row) pixels, cropped by `margin` pixels."""

    views: tuple[tuple[PictureFile, float, float, float], ...]
    margin: int

    @property
    def label(self) -> str:
        return self.views[0][0].label

    def load(self) -> np.ndarray:
        total = sum(weight for _, weight, _, _ in self.views)
        light = sum(
            np.float32(weight / total) * _shifted(_light(view), column, row, self.margin)
            for view, weight, column, row in self.views
        )
        return to_display(np.clip(light, 0, 1))


@dataclass(frozen=True)
class Geometry:
    """f in pixels, signed baseline B in scene units a step, κ in pixels a step."""

    focal: float
    baseline: float
    shift: float

    def depth(self, disparity: float) -> float:
        """δ in pixels a step → depth."""
        return self.focal * self.baseline / (self.shift - disparity)


def find_views(root: Path) -> Grid:
    """The photos by (row, column) of the grid; empty if this is no light field."""
    views: Grid = {}
    for path in pictures_in(root, root):
        if match := re.match(r"(?:view|out)_(\d{1,4})_(\d{1,4})(?:_[^/]*)?\.[a-zA-Z]+$", path.name):
            views[int(match[1]), int(match[2])] = path
    return views if len(views) >= 4 else {}


def read(root: Path, options: ReadOptions) -> Found:
    """Every view whose neighbours all exist, with its sharp, near-focused and far-focused photo."""
    views = find_views(root)
    if not views:
        raise ValueError(f"{root}: no light field; expected photos view_RR_CC.jpg on a grid of rows and columns")
    rows, columns = (np.unique([place[axis] for place in views]) for axis in (0, 1))
    step = int(min(np.diff(rows).min(initial=1 << 20), np.diff(columns).min(initial=1 << 20)))
    for place in [(int(r), int(c)) for r in rows for c in columns]:
        if place not in views:
            row, column = place
            raise ValueError(f"{root}: the view of row {row}, column {column} is missing; a light field is a full grid")
    width, height = image_size(views[int(rows[0]), int(columns[0])])
    near, far = _disparities(root, options)
    geometry = _geometry(width, near, far)
    focus = {"near": near + FOCUS_NEAR * (far - near), "far": near + FOCUS_FAR * (far - near)}
    cells = _lens_cells(options.grid.lens_views)
    reach = max(abs(i) for i, _ in cells) * step
    margin = int(np.ceil(reach * max(map(abs, focus.values())))) + 2
    if 4 * margin >= min(width, height):
        views_across = options.grid.lens_views
        raise ValueError(f"{root}: photos of {width}×{height} are too small for a lens of {views_across:g} views")
    spread = sum(w * i * i for (_, i), w in cells.items()) / sum(cells.values())
    aperture = geometry.focal * abs(geometry.baseline) * 2 * float(np.sqrt(spread)) * step
    centre = (float(rows.mean()), float(columns.mean()))
    frames = []
    for (row, column), path in sorted(views.items()):
        if image_size(path) != (width, height):
            raise ValueError(f"{path}: another size than the first view's {width}×{height}; all views have one size")
        around = {(i, j): (row + i * step, column + j * step) for i, j in cells}
        if not all(place in views for place in around.values()):
            continue

        def focused(which: str, around: dict[tuple[int, int], tuple[int, int]] = around) -> ShiftedAverage:
            shift = focus[which] * step
            files = ((PictureFile(views[place], width, height), o) for o, place in around.items())
            return ShiftedAverage(tuple((file, cells[o], shift * o[1], shift * o[0]) for file, o in files), margin)

        near_photo, near_lens = focused("near"), Lens(aperture, geometry.depth(focus["near"]))
        frames.append(
            Frame(
                name=path.stem,
                camera=_camera(geometry, (row - centre[0], column - centre[1]), (width, height), margin),
                photo=near_photo,
                lens=near_lens,
                sharp=ShiftedAverage(((PictureFile(path, width, height), 1.0, 0.0, 0.0),), margin),
                near=near_photo,
                far=focused("far"),
                near_lens=near_lens,
                far_lens=Lens(aperture, geometry.depth(focus["far"])),
                bounds=(NEAREST, FARTHEST),
            )
        )
    if not frames:
        raise ValueError(f"{root}: no view has all neighbours that a lens of {options.grid.lens_views:g} views needs")
    spacing = step * abs(far - near) * FOCUS_FAR
    note = f"the synthetic lens is made of {len(cells)} views; blur spots are up to {spacing:.1f} px apart at full size"
    return Found(root.resolve().name, "light field", frames, (NEAREST, FARTHEST), width - 2 * margin, notes=(note,))


def _disparities(root: Path, options: ReadOptions) -> tuple[float, float]:
    near_far = options.grid.disparities
    if near_far is None:
        path = root / "manifest.json"
        if not path.is_file():
            need = "disparities (near, far) in pixels a step, or a manifest.json with focus min and max"
            raise ValueError(f"{root}: give {need}")
        focus = read_json(inside(root, path.name, str(root))).get("focus")
        if not isinstance(focus, dict):
            raise ValueError(f"{path}: expected focus: {{min, max}}")
        near_far = (number(focus.get("min"), f"{path}: focus min"), number(focus.get("max"), f"{path}: focus max"))
    if not 1e-3 < abs(near_far[1] - near_far[0]) < 1e3:
        near, far = near_far
        raise ValueError(f"{root}: the disparities {near:g} and {far:g} px a step leave no usable range of depth")
    return near_far


def _geometry(width: int, near: float, far: float) -> Geometry:
    focal = FOCAL_WIDTHS * width
    baseline = (far - near) / (focal * (1 / NEAREST - 1 / FARTHEST))
    return Geometry(focal, baseline, far + focal * baseline / FARTHEST)


def _camera(geometry: Geometry, place: tuple[float, float], size: tuple[int, int], margin: int) -> Camera:
    """The camera `place` = (rows, columns) from the middle of the grid, its photo cropped by `margin`."""
    row, column = place
    to_world = np.eye(4)[:3]
    to_world[:, 3] = (geometry.baseline * column, -geometry.baseline * row, 0.0)
    cx = size[0] / 2 + geometry.shift * column - margin
    cy = size[1] / 2 + geometry.shift * row - margin
    return Camera(to_world, geometry.focal, geometry.focal, cx, cy, size[0] - 2 * margin, size[1] - 2 * margin)


def _lens_cells(radius: float) -> dict[tuple[int, int], float]:
    """Neighbours (rows, columns away) → the part of their unit cell that a disc of `radius` views covers."""
    if not 0.5 <= radius <= 50:
        raise ValueError(f"lens_views must be between 0.5 and 50, found {radius:g}")
    reach = int(np.ceil(radius + 0.5))
    inner = (np.arange(64) + 0.5) / 64 - 0.5
    cells = {}
    for i in range(-reach, reach + 1):
        for j in range(-reach, reach + 1):
            covered = float(np.mean((i + inner)[:, None] ** 2 + (j + inner)[None, :] ** 2 <= radius**2))
            if covered > 0.01:
                cells[i, j] = covered
    return cells


@lru_cache(maxsize=32)
def _light(view: PictureFile) -> np.ndarray:
    return to_linear(view.load())


def _shifted(image: np.ndarray, column: float, row: float, margin: int) -> np.ndarray:
    """The image read `column`, `row` pixels further on, by Catmull-Rom, without its margins."""
    height, width = (side - 2 * margin for side in image.shape[:2])
    top, left = int(np.floor(row)), int(np.floor(column))
    down = catmull_rom(np.asarray(row - top, dtype=np.float32))
    across = catmull_rom(np.asarray(column - left, dtype=np.float32))
    image = sum(down[i] * image[margin + top + i - 1 :][:height] for i in range(4))
    return sum(across[i] * image[:, margin + left + i - 1 :][:, :width] for i in range(4))
