"""What the sessions of a viewer share, and what each of them has set."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from scipy.spatial.transform import Rotation

from dofnerf.camera import Camera
from dofnerf.files.guard import parse_json
from dofnerf.optics import Lens, shape_of
from dofnerf.optics.shapes import SHAPES
from dofnerf.scenes import Viewpoint
from dofnerf.studio.flags import SENSOR, stops_in_words
from dofnerf.studio.rgbd import RGBD
from dofnerf.studio.source import Source

Overlay = Literal["none", "focus peaking", "depth"]
OVERLAYS = get_args(Overlay)
BLADES = (0, 3, 4, 5, 6, 7, 8, 9)
ROUND = "round"
STOPS = 4.0
WIDEST = 0.06  # the largest blur that the slider offers, in widths of the picture


@dataclass(frozen=True)
class Settings:
    """What one session has set: `radius` of the lens in scene units (0: all in focus), `disparity` of the focus,
    `rotation` in degrees, `exposure` in stops; `shape` is the name of an aperture that is neither round nor a polygon.
    As JSON, the browser keeps it.

    With `beside`, the photo is shown next to the picture, both as it was framed."""

    radius: float = 0.0
    disparity: float = 0.0
    blades: int = 0
    rotation: float = 0.0
    exposure: float = 0.0
    overlay: Overlay = "none"
    photo: str = ""
    beside: bool = False
    shape: str = ""

    def lens(self, camera: Camera) -> Lens:
        """The lens before a camera."""
        shape = shape_of(self.shape or None, self.blades, self.rotation)
        return Lens(self.radius * camera.fx, shape=shape, focus_disparity=self.disparity)

    def to_json(self, pose: dict[str, Any]) -> str:
        """This and where the camera is."""
        return json.dumps({"look": asdict(self), "camera": pose})


def from_json(text: str | None, widest: float, photos: tuple[str, ...]) -> tuple[Settings, dict[str, Any]] | None:
    """What `to_json` wrote, or None if the text is anything else: browsers keep what anybody put there."""
    try:
        data = parse_json(text or "", "settings")
        known = {"shape": ""} | data["look"]  # kept by a version that had no shapes
        found = Settings(**{key: known[key] for key in (field.name for field in fields(Settings))})
        numbers = found.radius, found.disparity, found.rotation, found.exposure
        pose = {key: [float(value) for value in data["camera"][key]] for key in ("position", "wxyz", "look_at", "up")}
        pose["fov"] = float(data["camera"]["fov"])  # type: ignore[assignment]
        lengths = [len(pose[key]) for key in ("position", "wxyz", "look_at", "up")]
        flat = [*pose["position"], *pose["wxyz"], *pose["look_at"], *pose["up"]]
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    right = (
        lengths == [3, 4, 3, 3]
        and all(isinstance(value, int | float) and math.isfinite(value) for value in (*numbers, *flat))
        and 0.02 < pose["fov"] < 3  # type: ignore[operator]
        and 0 <= found.radius <= widest
        and found.disparity >= 0
        and (found.shape, found.blades) in shape_choices().values()
        and abs(found.exposure) <= STOPS
        and found.overlay in OVERLAYS
        and (found.photo in photos or found.photo == "")
        and isinstance(found.beside, bool)
    )
    return (found, pose) if right else None


def shape_choices() -> dict[str, tuple[str, int]]:
    """What the shape of the aperture may be, by the words of the panel: (name, blades)."""
    names = [name for name in SHAPES if name not in ("disc", "blades")]
    return {ROUND: ("", 0)} | {str(n): ("", n) for n in BLADES[1:]} | {name: (name, 0) for name in names}


def held(value: Any, low: float, high: float) -> float:
    """A number kept within `low` … `high`; NaN is `low`."""
    return min(max(low, float(value)), high)


@dataclass(frozen=True)
class Shared:
    """What all sessions share. `views` are the run's, `photos` by name (H, W, 3) where they are known; `home` is where a
    session begins, `first` what is seen from there, and `start` what is set then (None: what the browser kept, or a
    quarter of the widest lens). `folder` is the only one that is written into. Pictures have `longest` pixels along
    their longer side. A scene unit is `unit` metres, where known, and the sensor `sensor` millimetres wide."""

    source: Source
    views: Mapping[str, Viewpoint]
    home: Viewpoint
    first: RGBD
    longest: int
    start: Settings | None = None
    unit: float | None = None
    sensor: float = SENSOR
    photos: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.source.folder

    @property
    def key(self) -> str:
        """Under which a browser keeps what was set for this source, and for no other."""
        return f"dofnerf-{hashlib.sha256(str(self.source.path.resolve()).encode()).hexdigest()[:16]}"

    @property
    def range(self) -> tuple[float, float]:
        """(far, near), disparities with some room."""
        far, near = self.first.disparity_range()
        return max(far - 0.1 * (near - far), 0.0), max(1.5 * near, 1e-6)

    @property
    def widest(self) -> float:
        """The largest lens radius, in scene units."""
        far, near = self.first.disparity_range()
        camera = self.home.camera
        learned = [lens.aperture / self.focal(name) for name, lens in self.source.learned.items()]
        usual = WIDEST * camera.width / camera.fx / max(near - far, 1e-6)
        return float(max(usual, 1.2 * max(learned, default=0.0), self.start.radius if self.start else 0.0))

    def focal(self, name: str) -> float:
        """Of a photo, in pixels of the size that its lens was learned for."""
        view, size = self.views.get(name), self.source.size
        if view is None or size is None:
            return self.home.camera.fx
        return view.camera.fx * size[0] / view.camera.width

    def learned(self, name: str) -> Lens | None:
        """The lens of a photo, its aperture being the lens radius in scene units."""
        lens = self.source.learned.get(name)
        return None if lens is None else lens.scaled(1, self.focal(name))

    def stop(self, radius: float, camera: Camera) -> str:
        """A lens of this radius in scene units as an f-number, where the scale is known, else in stops relative to the
        photos' lens, where that is; a window's shape does not count, but that of the first view."""
        if radius == 0:
            return ""
        if self.unit is not None:
            focal_mm = camera.fy / camera.height * self.home.camera.height / self.home.camera.width * self.sensor
            return f"f/{focal_mm / (2 * radius * 1000 * self.unit):.2g}"
        if self.source.optics is None or self.source.optics.radius is None:
            return ""
        return stops_in_words(round(2 * math.log2(radius / self.source.optics.radius), 1) + 0.0)


def fitted(camera: Camera, aspect: float, longest: int) -> Camera:
    """The camera's pose and vertical field of view in a picture of another shape, its longer side so many pixels."""
    width, height = (longest, longest / aspect) if aspect >= 1 else (longest * aspect, longest)
    width, height = max(8, round(width)), max(8, round(height))
    focal = camera.fy * height / camera.height
    return Camera(camera.camera_to_world, focal, focal, width / 2, height / 2, width, height)


def camera_of(position: np.ndarray, wxyz: np.ndarray, fov: float, size: tuple[int, int]) -> Camera:
    """The camera of a browser (OpenCV axes, vertical field of view in radians) in a picture of `size` (width,
    height)."""
    turn = Rotation.from_quat(np.roll(wxyz, -1)).as_matrix()
    pose = np.concatenate([turn * [1, -1, -1], np.asarray(position, float)[:, None]], axis=1)
    focal = 0.5 * size[1] / math.tan(fov / 2)
    return Camera(pose, focal, focal, size[0] / 2, size[1] / 2, *size)
