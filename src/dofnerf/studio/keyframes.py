"""Moments of a film, and the smooth way between them: pose, field of view, aperture, focus, shape and exposure.

On disk they are a transforms.json (docs/formats.md) whose frames also have `shape` (a name), `blades`, `rotation`
(degrees), `exposure` (stops) and `time` (seconds, rising), each optional: any file of cameras will do.

Between moments, positions, focus disparity and the like run along Catmull-Rom splines, rotations along one through
quaternions: no jump in speed. Two shapes have nothing in between, so a frame mixes the light of both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

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
    rotation = given("rotation", 0.0) if "transform_matrix" in entry else 0.0  # else it is the pose's
    if shape is not None and not isinstance(shape, str):
        raise ValueError(f"{where}: shape must be a name, found {shown(shape)}")
    try:
        ShapeFlags(shape, int(blades), rotation).check()
        check_within("exposure", exposure, -MOST_STOPS, MOST_STOPS, " stops")
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return Moment(view, int(blades), rotation, exposure, given("time", float(i)), shape)


def between(moments: Sequence[Moment], times: Sequence[float], width: int | None = None) -> list[Moment]:
    """What is there at these times, all in the size of the first moment, or so many pixels wide."""
    from scipy.interpolate import CubicHermiteSpline
    from scipy.spatial.transform import Rotation

    first = moments[0].view.camera
    width = width or first.width
    size = width, max(1, round(first.height * width / first.width))
    moments = [_sized(moment, size) for moment in moments]
    knots = np.array([moment.time for moment in moments])
    poses = np.stack([moment.view.camera.camera_to_world for moment in moments])
    turns = Rotation.from_matrix(poses[:, :, :3]).as_quat()
    for i in range(1, len(turns)):  # both signs mean the same turn: take the one nearer to the turn before
        turns[i] *= -1 if turns[i] @ turns[i - 1] < 0 else 1
    values = np.concatenate([poses[:, :, 3], turns, [_numbers(moment) for moment in moments]], axis=1)
    # A moment that is all in focus has no focus of its own: it takes that of the moments around.
    known = np.flatnonzero(np.isfinite(values[:, 12]))
    values[:, 12] = np.interp(knots, knots[known], values[known, 12]) if len(known) else 0.0
    rows = CubicHermiteSpline(knots, values, np.gradient(values, knots, axis=0))(np.clip(times, knots[0], knots[-1]))
    turned = Rotation.from_quat(rows[:, 3:7]).as_matrix()
    poses = np.concatenate([turned, rows[:, :3, None]], axis=2)
    return [_blend(moments, knots, *at) for at in zip(times, poses, rows[:, 7:], strict=True)]


def _numbers(moment: Moment) -> list[float]:
    camera, lens = moment.view.camera, moment.view.lens or Lens(0.0, math.nan)
    return [
        math.log(camera.fx), math.log(camera.fy), camera.cx, camera.cy,
        lens.aperture / camera.fx, lens.focus_disparity, moment.rotation, moment.exposure,
    ]  # fmt: skip


def _blend(moments: Sequence[Moment], knots: np.ndarray, time: float, pose: np.ndarray, numbers: np.ndarray) -> Moment:
    i = int(np.clip(np.searchsorted(knots, time, side="right") - 1, 0, len(knots) - 2))
    share = float(np.clip((time - knots[i]) / (knots[i + 1] - knots[i]), 0, 1))
    fx, fy, cx, cy, opened, disparity, rotation, exposure = map(float, (*np.exp(numbers[:2]), *numbers[2:]))
    one, two = moments[i], moments[i + 1]
    camera = replace(one.view.camera, camera_to_world=pose, fx=fx, fy=fy, cx=cx, cy=cy)
    aperture = max(opened, 0.0) * fx
    view = Viewpoint(f"{time:.3f} s", camera, Lens(aperture, inverse(max(disparity, 0.0))) if aperture > 0 else None)
    other = two.shape, two.blades
    mix = share * share * (3 - 2 * share) if (one.shape, one.blades) != other else 0.0
    return Moment(view, one.blades, rotation, exposure, time, one.shape, other, mix)


def _sized(moment: Moment, size: tuple[int, int]) -> Moment:
    camera, lens = moment.view.camera, moment.view.lens
    larger = camera.resized(*size)
    lens = None if lens is None else lens.scaled(larger.fx, camera.fx)
    return replace(moment, view=replace(moment.view, camera=larger, lens=lens))
