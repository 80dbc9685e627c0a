"""The cameras that the viewpoint flags ask for, once the scene is known."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.files.ply import Splats
from dofnerf.optics.lens import Lens
from dofnerf.scenes import Viewpoint
from dofnerf.studio.flags import LARGEST_SIDE, ViewpointFlags, vector

if TYPE_CHECKING:
    from dofnerf.studio.source import Source

FOV = 50.0
SIZE = 960, 640
FIRST = 3  # training views of a run that held none out
_SEEN = 0.1  # opacity below which a splat does not count when a camera is placed
_MIDDLE = 10, 90  # percentiles: what a camera is placed to see; captures have floaters and a far background


def viewpoints(flags: ViewpointFlags, source: Source, as_shot: bool = False) -> list[Viewpoint]:
    """The cameras, each with the lens of its photo where that is known; at least one."""
    if flags.placed or (source.splats is not None and flags.camera is None):
        return [_place(flags, source)]
    known = _known(flags, source)
    names = scenes.plain_stems([view.name for view in known])
    chosen = [
        replace(_sized(flags, known[i]), name=names[i], photo=known[i].name)
        for i in _chosen(flags, known, names, as_shot)
    ]
    for view in chosen:
        if max(view.camera.width, view.camera.height) > LARGEST_SIDE:
            raise ValueError(
                f"view {view.name} has {view.camera.width} × {view.camera.height} pixels, more than {LARGEST_SIDE} "
                "along a side; give a smaller --width"
            )
    return chosen


def _known(flags: ViewpointFlags, source: Source) -> list[Viewpoint]:
    """All views that there are."""
    if flags.camera is None:
        if not source.views:
            raise ValueError(
                f"{source.path}: the run has no cameras.json (it was trained by an older version); "
                "give --camera with the scene's folder"
            )
        found = list(source.views)
    elif flags.camera.is_dir():
        width = None if source.size is None else source.size[0]
        scene = scenes.load(flags.camera, width=width)
        held = set(scene.test)
        found = [Viewpoint(frame.name, frame.camera, frame.lens, i in held) for i, frame in enumerate(scene.frames)]
        found = [replace(view, lens=None) for view in found] if source.learned else found
    else:
        found = scenes.read_cameras(flags.camera)
    return [replace(view, lens=view.lens or learned_lens(source, view)) for view in found]


def _chosen(flags: ViewpointFlags, known: list[Viewpoint], names: list[str], as_shot: bool) -> list[int]:
    if flags.view:
        return list(dict.fromkeys(_number(text, known, names) for text in flags.view))
    held = [i for i, view in enumerate(known) if view.held_out]
    train = [i for i, view in enumerate(known) if not view.held_out]
    if flags.views is not None:
        chosen = {"train": train, "test": held, "all": list(range(len(known)))}[flags.views]
        if not chosen:
            raise ValueError(f"--views {flags.views}: there is none among the {len(known)} views; use --views all")
        return chosen
    if flags.camera is not None and not flags.camera.is_dir():
        return list(range(len(known)))
    return (train if as_shot else held) or train[:FIRST] or held[:FIRST]


def _sized(flags: ViewpointFlags, view: Viewpoint) -> Viewpoint:
    camera = view.camera
    width, height = flags.width, flags.height
    if width is None and height is None:
        return view
    width = width or max(1, round(camera.width * (height or 1) / camera.height))
    height = height or max(1, round(camera.height * width / camera.width))
    if abs(height * camera.width / width - camera.height) > 0.01 * camera.height + camera.width / width:
        raise ValueError(
            f"--width {width} --height {height}: another shape than the camera's {camera.width} × {camera.height}; "
            "give one of them"
        )
    lens = None if view.lens is None else view.lens.scaled(width, camera.width)
    return replace(view, camera=camera.resized(width, height), lens=lens)


def _place(flags: ViewpointFlags, source: Source) -> Viewpoint:
    """A camera by --eye, --look-at, --up and --fov, or before the whole of the splats."""
    first = source.views[0].camera if source.views else None
    if first is not None:
        size, fov = (first.width, first.height), math.degrees(2 * math.atan(0.5 * first.width / first.fx))
    else:
        size, fov = source.size or SIZE, FOV
    width = flags.width or (round(size[0] * flags.height / size[1]) if flags.height else size[0])
    height = flags.height or max(1, round(size[1] * width / size[0]))
    fov = flags.fov or fov
    up = source.upward if flags.up is None else np.array(vector("--up", flags.up))
    focal = 0.5 * width / math.tan(math.radians(fov) / 2)
    eye = None if flags.eye is None else np.array(vector("--eye", flags.eye))
    target = None if flags.look_at is None else np.array(vector("--look-at", flags.look_at))
    if eye is None or target is None:
        assert source.splats is not None
        middle, distance = _before(source.splats, up, 0.5 * width / focal, 0.5 * height / focal)
        target = middle if target is None else target
        eye = target - distance * _ahead(up) if eye is None else eye
    pose = np.concatenate([_turn(target - eye, up), eye[:, None]], axis=1)
    return Viewpoint("render", Camera(pose, focal, focal, width / 2, height / 2, width, height))


def photos_of(source: Source) -> list[Viewpoint]:
    """The source's views, each with the lens of its photo where its blur tells it."""
    return [
        replace(view, lens=view.lens or (None if view.name in source.unknown else learned_lens(source, view)))
        for view in source.views
    ]


def learned_lens(source: Source, view: Viewpoint) -> Lens | None:
    """The lens that a run learned for this photo, for a picture of this size."""
    lens = source.learned.get(view.name)
    if lens is None or source.size is None:
        return lens
    return lens.scaled(view.camera.width, source.size[0])


def _number(text: str, known: list[Viewpoint], names: list[str]) -> int:
    for i, view in enumerate(known):
        if text in (view.name, Path(view.name).name, names[i]):
            return i
    if text.isdecimal() and int(text) < len(known):
        return int(text)
    some = ", ".join(view.name for view in known[:3])
    raise ValueError(
        f"--view {text}: there is no such view; there are {len(known)}, numbered from 0: "
        f"{some}{' …' * (len(known) > 3)}"
    )


def _ahead(up: np.ndarray) -> np.ndarray:
    """The way in which a camera looks that nobody turned: +z where y is down (OpenCV), −z where it is up (OpenGL), else
    +y."""
    if abs(up[2]) > max(abs(up[0]), abs(up[1])):
        ahead = np.array([0.0, 1.0, 0.0])
    else:
        ahead = np.array([0.0, 0.0, -1.0 if up[1] > 0 else 1.0])
    across = ahead - up * (ahead @ up) / (up @ up)
    return across / np.linalg.norm(across)


def _before(splats: Splats, up: np.ndarray, across: float, along: float) -> tuple[np.ndarray, float]:
    """The middle of what can be seen, and how far before it a camera sees it whole; half of the picture is `across` and
    `along` wide and high at distance 1."""
    solid = splats.means[1 / (1 + np.exp(-splats.opacities.astype(np.float64))) > _SEEN]
    points = (solid if len(solid) else splats.means).astype(np.float64)
    axes = _turn(_ahead(up), up)
    local = points @ axes  # right, up, back
    low, high = np.percentile(local, _MIDDLE, axis=0)
    middle = np.median(local, axis=0)
    reach = np.maximum(high - middle, middle - low)
    distance = max(reach[0] / across, reach[1] / along) + max(high[2] - middle[2], 0.0)
    smallest = 1e-3 * max(float(np.abs(middle).max()), 1.0)
    return axes @ middle, max(float(distance), smallest)


def _turn(ahead: np.ndarray, up: np.ndarray) -> np.ndarray:
    """The axes (3, 3) of a camera, right, up and back as columns, that looks `ahead`."""
    length = float(np.linalg.norm(ahead))
    if not length > 0:
        raise ValueError("--eye and --look-at are the same point: a camera looks from one at the other")
    back = -ahead / length
    right = np.cross(up, back)
    if not np.linalg.norm(right) > 1e-6 * max(float(np.linalg.norm(up)), 1e-30):
        raise ValueError("--up points along the view, from --eye to --look-at: give another --up, such as 0,0,1")
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(back, right), back], axis=1)
