"""From where a scene is shown: flags → cameras."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro

from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.optics.lens import Lens
from dofnerf.scenes import Splats, Viewpoint
from dofnerf.studio.numbers import vector

if TYPE_CHECKING:
    from dofnerf.studio.subject import Subject

FOV = 50.0
SIZE = 960, 640
LARGEST_SIDE = 1 << 14  # pixels; a billion of them no memory holds
FIRST = 3  # training views of a run that held none out
_SEEN = 0.1  # opacity below which a splat does not count when a camera is placed
_MIDDLE = 10, 90  # percentiles: what a camera is placed to see; captures have floaters and a far background
_OPTIONAL = tyro.conf.arg(help_behavior_hint="(optional)")


@dataclass(frozen=True)
class ViewpointConfig:
    """From where. A run shows its held-out views if nothing is said; a .ply is seen whole, from the front."""

    view: Annotated[tuple[str, ...], tyro.conf.arg(metavar="I [I ...]", help_behavior_hint="(optional)")] = ()
    """Only these views: numbers from 0, or names of photos; of the run's scene, or of --camera."""
    views: Annotated[Literal["train", "test", "all"] | None, tyro.conf.arg(help_behavior_hint="(default: test)")] = None
    """All views of the run that were trained on, or held out (test), or both."""
    camera: Annotated[Path | None, _OPTIONAL] = None
    """Any cameras: a transforms.json (photos are not needed), a cameras.json of 3D Gaussian Splatting, or a scene's
    folder."""
    eye: Annotated[
        str | None, tyro.conf.arg(metavar="X,Y,Z", help_behavior_hint="(default: in front of the splats)")
    ] = None
    """Where the camera stands, in scene units."""
    look_at: Annotated[
        str | None, tyro.conf.arg(metavar="X,Y,Z", help_behavior_hint="(default: the splats' middle)")
    ] = None
    """The point in the middle of the picture, in scene units."""
    up: Annotated[
        str | None,
        tyro.conf.arg(metavar="X,Y,Z", help_behavior_hint="(default: 0,-1,0; a run's own; what a file says)"),
    ] = None
    """Which way is up; 3D Gaussian Splatting has y down. Exports of nerfstudio have 0,0,1, splats trained here
    0,1,0."""
    fov: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: 50; a run's own)")] = None
    """Horizontal field of view in degrees, for a camera placed by --eye, --look-at or automatically."""
    width: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: the camera's; 960 for a .ply)")] = None
    """Width of the pictures in pixels; the same view in another size. Apertures count in these pixels."""
    height: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: by the width)")] = None
    """Height of the pictures in pixels."""

    @property
    def placed(self) -> bool:
        """Whether flags place the camera."""
        return any(value is not None for value in (self.eye, self.look_at, self.up, self.fov))

    def check(self, for_file: bool) -> None:
        """Refuse what no scene could make right."""
        for flag, value in (("--eye", self.eye), ("--look-at", self.look_at), ("--up", self.up)):
            if value is not None:
                vector(flag, value)
        if self.placed and (self.camera is not None or self.view or self.views is not None):
            raise ValueError(
                "--eye, --look-at, --up and --fov place a camera; --view, --views and --camera choose one: not both"
            )
        if self.view and self.views is not None:
            raise ValueError("--view and --views both choose among the views: give one of them")
        if self.fov is not None and not 1 <= self.fov <= 170:
            raise ValueError(f"--fov must be 1 to 170 degrees, found {self.fov:g}")
        for flag, size in (("--width", self.width), ("--height", self.height)):
            if size is not None and not 1 <= size <= LARGEST_SIDE:
                raise ValueError(f"{flag} must be 1 to {LARGEST_SIDE} pixels, found {size}")
        if for_file and self.camera is None and (self.view or self.views is not None):
            raise ValueError("a .ply has no views of its own: give --camera FILE.json, or --eye and --look-at")
        if not for_file and self.placed and (self.eye is None or self.look_at is None):
            raise ValueError("to place a camera before a run, give both --eye and --look-at")

    def viewpoints(self, subject: Subject, as_shot: bool = False) -> list[Viewpoint]:
        """The cameras, each with the lens of its photo where that is known; at least one."""
        if self.placed or (subject.splats is not None and self.camera is None):
            return [self._place(subject)]
        known = self._known(subject)
        names = scenes.plain_stems([view.name for view in known])
        chosen = [replace(self._sized(known[i]), name=names[i]) for i in self._chosen(known, names, as_shot)]
        for view in chosen:
            if max(view.camera.width, view.camera.height) > LARGEST_SIDE:
                raise ValueError(
                    f"view {view.name} has {view.camera.width} × {view.camera.height} pixels, more than {LARGEST_SIDE} along a "
                    "side; give a smaller --width"
                )
        return chosen

    def _known(self, subject: Subject) -> list[Viewpoint]:
        """All views that there are."""
        if self.camera is None:
            if not subject.views:
                raise ValueError(
                    f"{subject.source}: the run has no cameras.json (it was trained by an older version); "
                    "give --camera with the scene's folder"
                )
            found = list(subject.views)
        elif self.camera.is_dir():
            width = None if subject.size is None else subject.size[0]
            scene = scenes.load(self.camera, width=width)
            held = set(scene.test)
            found = [Viewpoint(frame.name, frame.camera, frame.lens, i in held) for i, frame in enumerate(scene.frames)]
            found = [replace(view, lens=None) for view in found] if subject.learned else found
        else:
            found = scenes.read_cameras(self.camera)
        return [replace(view, lens=view.lens or _learned(subject, view)) for view in found]

    def _chosen(self, known: list[Viewpoint], names: list[str], as_shot: bool) -> list[int]:
        if self.view:
            return list(dict.fromkeys(_number(text, known, names) for text in self.view))
        held = [i for i, view in enumerate(known) if view.held_out]
        train = [i for i, view in enumerate(known) if not view.held_out]
        if self.views is not None:
            chosen = {"train": train, "test": held, "all": list(range(len(known)))}[self.views]
            if not chosen:
                raise ValueError(f"--views {self.views}: there is none among the {len(known)} views; use --views all")
            return chosen
        if self.camera is not None and not self.camera.is_dir():
            return list(range(len(known)))
        return (train if as_shot else held) or train[:FIRST] or held[:FIRST]

    def _sized(self, view: Viewpoint) -> Viewpoint:
        camera = view.camera
        width, height = self.width, self.height
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

    def _place(self, subject: Subject) -> Viewpoint:
        """A camera by --eye, --look-at, --up and --fov, or before the whole of the splats."""
        first = subject.views[0].camera if subject.views else None
        if first is not None:
            size, fov = (first.width, first.height), math.degrees(2 * math.atan(0.5 * first.width / first.fx))
            up = np.mean([view.camera.camera_to_world[:, 1] for view in subject.views], axis=0)
        else:
            size, fov, up = subject.size or SIZE, FOV, np.array(subject.up)
        width = self.width or (round(size[0] * self.height / size[1]) if self.height else size[0])
        height = self.height or max(1, round(size[1] * width / size[0]))
        fov = self.fov or fov
        up = up if self.up is None else np.array(vector("--up", self.up))
        focal = 0.5 * width / math.tan(math.radians(fov) / 2)
        eye = None if self.eye is None else np.array(vector("--eye", self.eye))
        target = None if self.look_at is None else np.array(vector("--look-at", self.look_at))
        if eye is None or target is None:
            assert subject.splats is not None
            middle, distance = _before(subject.splats, up, 0.5 * width / focal, 0.5 * height / focal)
            target = middle if target is None else target
            eye = target - distance * _ahead(up) if eye is None else eye
        pose = np.concatenate([_turn(target - eye, up), eye[:, None]], axis=1)
        return Viewpoint("render", Camera(pose, focal, focal, width / 2, height / 2, width, height))


def _learned(subject: Subject, view: Viewpoint) -> Lens | None:
    """The lens that a run learned for this photo, for a picture of this size."""
    lens = subject.learned.get(view.name)
    if lens is None or subject.size is None:
        return lens
    return lens.scaled(view.camera.width, subject.size[0])


def _number(text: str, known: list[Viewpoint], names: list[str]) -> int:
    for i, view in enumerate(known):
        if text in (view.name, Path(view.name).name, names[i]):
            return i
    if text.isdecimal() and int(text) < len(known):
        return int(text)
    some = ", ".join(view.name for view in known[:3])
    raise ValueError(
        f"--view {text}: there is no such view; there are {len(known)}, numbered from 0: {some}{' …' * (len(known) > 3)}"
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
