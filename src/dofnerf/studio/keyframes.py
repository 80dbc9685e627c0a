"""Moments of a film, and the smooth way between them: pose, field of view, aperture, focus, shape and exposure.

On disk they are a transforms.json (docs/formats.md) whose frames also have `shape` (a name), `blades`, `rotation`
(degrees), `exposure` (stops) and `time` (seconds, rising), each optional: any file of cameras will do.

Between moments, positions, focus disparity and the like run along Catmull-Rom splines, rotations along one through
quaternions: no jump in speed. Two shapes have nothing in between, so a frame mixes the light of both. (scipy's splines
and rotations agree with the few lines here only up to rounding, and films would not stay the same to the bit.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files import write_json
from dofnerf.files.guard import number, read_json_value, shown
from dofnerf.optics.lens import Lens, inverse
from dofnerf.scenes import Viewpoint, read_cameras
from dofnerf.scenes.export import plain_view
from dofnerf.studio.flags import MOST_STOPS, ShapeFlags, check_within

MOST = 10_000
_EXTRAS = ("shape", "blades", "rotation", "exposure")


@dataclass(frozen=True)
class Moment:
    """`view` with its lens (None: all in focus), whose aperture has the `shape` of this name (None: by `blades`) turned
    by `rotation` in degrees; `exposure` in stops, `time` in seconds.

    A moment between two others may have two shapes: its own, and `other` (name, blades) of which it has the share
    `mix`."""

    view: Viewpoint
    blades: int = 0
    rotation: float = 0.0
    exposure: float = 0.0
    time: float = 0.0
    shape: str | None = None
    other: tuple[str | None, int] = (None, 0)
    mix: float = 0.0


def read_keyframes(path: Path) -> list[Moment]:
    """The moments of a file, at least two, their times rising; a second apart where it names none."""
    views = read_cameras(path)
    data = read_json_value(path)
    entries = data["frames"] if isinstance(data, dict) else data
    if not 2 <= len(views) <= MOST:
        raise ValueError(f"{path}: keyframes are 2 to {MOST}, found {len(views)}")
    pairs = enumerate(zip(views, entries, strict=True))
    moments = [_moment(view, entry, f"{path}: frame {i}", i) for i, (view, entry) in pairs]
    for before, after in itertools.pairwise(moments):
        if not after.time > before.time:
            raise ValueError(f"{path}: the times of keyframes must rise, found {after.time:g} after {before.time:g}")
    return moments


def write_keyframes(path: Path, moments: Sequence[Moment]) -> None:
    """As `read_keyframes` reads them."""
    entries = []
    for i, moment in enumerate(moments):
        extras = {key: getattr(moment, key) for key in (*_EXTRAS, "time") if getattr(moment, key) is not None}
        entries.append(plain_view(moment.view) | {"file_path": f"keyframe-{i}"} | extras)
    write_json(path, {"camera_model": "PINHOLE", "frames": entries})


def _moment(view: Viewpoint, entry: dict[str, Any], where: str, i: int) -> Moment:
    def given(key: str, default: float) -> float:
        value = entry.get(key)
        return default if value is None else number(value, f"{where}: {key}")

    blades = given("blades", 0.0)
    if blades != int(blades):
        raise ValueError(f"{where}: blades must be a whole number, found {blades:g}")
    shape, exposure = entry.get("shape"), given("exposure", 0.0)
    if shape is not None and not isinstance(shape, str):
        raise ValueError(f"{where}: shape must be a name, found {shown(shape)}")
    try:
        ShapeFlags(shape, int(blades), given("rotation", 0.0)).check()
        check_within("exposure", exposure, -MOST_STOPS, MOST_STOPS, " stops")
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return Moment(view, int(blades), given("rotation", 0.0), exposure, given("time", float(i)), shape)


def between(moments: Sequence[Moment], times: Sequence[float], width: int | None = None) -> list[Moment]:
    """What is there at these times, all in the size of the first moment, or so many pixels wide."""
    first = moments[0].view.camera
    width = width or first.width
    size = width, max(1, round(first.height * width / first.width))
    sized = [_sized(moment, size) for moment in moments]
    knots = np.array([moment.time for moment in sized])
    poses = np.stack([moment.view.camera.camera_to_world for moment in sized])
    turns = _aligned(np.stack([quaternion(pose[:, :3]) for pose in poses]))
    numbers = np.stack([_numbers(moment) for moment in sized])
    values = np.concatenate([poses[:, :, 3], turns, numbers], axis=1)
    return [_blend(sized, knots, values, time, size) for time in times]


def _numbers(moment: Moment) -> list[float]:
    camera, lens = moment.view.camera, moment.view.lens or Lens(0.0, math.nan)
    return [
        math.log(camera.fx), math.log(camera.fy), camera.cx, camera.cy,
        lens.aperture / camera.fx, lens.focus_disparity, moment.rotation, moment.exposure,
    ]  # fmt: skip


def _blend(
    moments: Sequence[Moment], knots: np.ndarray, values: np.ndarray, time: float, size: tuple[int, int]
) -> Moment:
    i = int(np.clip(np.searchsorted(knots, time, side="right") - 1, 0, len(knots) - 2))
    share = float(np.clip((time - knots[i]) / (knots[i + 1] - knots[i]), 0, 1))
    # A moment that is all in focus has no focus of its own: it takes that of the moments around.
    known = np.flatnonzero(np.isfinite(values[:, 12]))
    filled = values.copy()
    filled[:, 12] = np.interp(knots, knots[known], values[known, 12]) if len(known) else 0.0
    x = spline(filled, knots, i, share)
    focal, centre = np.exp(x[7:9]), x[9:11]
    pose = np.concatenate([matrix(x[3:7]), x[:3, None]], axis=1)
    camera = Camera(pose, float(focal[0]), float(focal[1]), float(centre[0]), float(centre[1]), *size)
    aperture, disparity = max(float(x[11]), 0.0) * camera.fx, max(float(x[12]), 0.0)
    lens = Lens(aperture, inverse(disparity)) if aperture > 0 else None
    view = Viewpoint(f"{time:.3f} s", camera, lens)
    one, two = moments[i], moments[i + 1]
    other = two.shape, two.blades
    mix = share * share * (3 - 2 * share) if (one.shape, one.blades) != other else 0.0
    return Moment(view, one.blades, float(x[13]), float(x[14]), time, one.shape, other, mix)


def spline(values: np.ndarray, knots: np.ndarray, i: int, share: float) -> np.ndarray:
    """Values (N, D) at `knots` (N,) → those (D,) a `share` of the way from knot i to the next: cubic, through all, with
    the slope of the parabola through three neighbours at each (at the ends, of the line to the only one)."""

    def slope(k: int) -> np.ndarray:
        low, high = max(k - 1, 0), min(k + 1, len(knots) - 1)
        if high - low < 2:
            return (values[high] - values[low]) / (knots[high] - knots[low])
        before, after = knots[k] - knots[low], knots[high] - knots[k]
        left, right = (values[k] - values[low]) / before, (values[high] - values[k]) / after
        return (left * after + right * before) / (before + after)

    step = knots[i + 1] - knots[i]
    s, r = share, 1 - share
    ends = values[i] * (1 + 2 * s) * r * r + values[i + 1] * s * s * (3 - 2 * s)
    return ends + step * (slope(i) * s * r * r - slope(i + 1) * s * s * r)


def _sized(moment: Moment, size: tuple[int, int]) -> Moment:
    camera, lens = moment.view.camera, moment.view.lens
    larger = camera.resized(*size)
    lens = None if lens is None else lens.scaled(larger.fx, camera.fx)
    return replace(moment, view=replace(moment.view, camera=larger, lens=lens))


def _aligned(turns: np.ndarray) -> np.ndarray:
    """Quaternions (N, 4), each of the sign that is nearer to the one before: both mean the same turn."""
    for i in range(1, len(turns)):
        if turns[i] @ turns[i - 1] < 0:
            turns[i] = -turns[i]
    return turns


def quaternion(turn: np.ndarray) -> np.ndarray:
    """A rotation (3, 3) as w, x, y, z: the eigenvector of Bar-Itzhack's matrix, which is stable for every angle."""
    (a, b, c), (d, e, f), (g, h, i) = turn
    matrix = np.array([[a + e + i, h - f, c - g, d - b], [h - f, a - e - i, b + d, c + g],
                       [c - g, b + d, e - a - i, f + h], [d - b, c + g, f + h, i - a - e]])  # fmt: skip
    return np.linalg.eigh(matrix)[1][:, -1]


def matrix(quaternion: np.ndarray) -> np.ndarray:
    """The rotation (3, 3) of a quaternion w, x, y, z of any length."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
