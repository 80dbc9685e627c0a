"""What all visitors share: the subject, its photos, and where they may stand."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dofnerf.camera import Camera
from dofnerf.optics.lens import Lens
from dofnerf.optics.light import Curve
from dofnerf.scenes import Viewpoint
from dofnerf.studio.keyframes import matrix
from dofnerf.studio.rgbd import RGBD
from dofnerf.studio.shot_config import SENSOR
from dofnerf.studio.subject import Subject
from dofnerf.studio.viewer.darkroom import draw

WIDEST = 0.06  # the largest blur that the slider offers, in widths of the picture


@dataclass(frozen=True)
class Stage:
    """`views` are the run's, `photos` by name (H, W, 3) where they are known; `home` is where a visitor begins.
    `folder` is the only one that is written into. Depths `far` and `near` are disparities of what `home` sees."""

    subject: Subject
    views: Mapping[str, Viewpoint]
    home: Viewpoint
    first: RGBD
    folder: Path
    longest: int
    unit: float = 1.0
    photos: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Under which a browser keeps what was set for this source, and for no other."""
        return f"dofnerf-{hashlib.sha256(str(self.subject.source.resolve()).encode()).hexdigest()[:16]}"

    @property
    def cut(self) -> Curve | None:
        """The light in which layers are cut out of the sharp picture, where that is how blur is made."""
        return self.subject.light if self.subject.flat else None

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
        learned = [lens.aperture / self.focal(name) for name, lens in self.subject.learned.items()]
        usual = WIDEST * camera.width / camera.fx / max(near - far, 1e-6)
        return float(max(usual, 1.2 * max(learned, default=0.0)))

    def focal(self, name: str) -> float:
        """Of a photo, in pixels of the size that its lens was learned for."""
        view, size = self.views.get(name), self.subject.size
        if view is None or size is None:
            return self.home.camera.fx
        return view.camera.fx * size[0] / view.camera.width

    def learned(self, name: str) -> Lens | None:
        """(lens radius in scene units, focus depth) of a photo, as a Lens."""
        lens = self.subject.learned.get(name)
        return None if lens is None else lens.scaled(1, self.focal(name))

    def f_number(self, radius: float, camera: Camera) -> float:
        """Of a lens of this radius in scene units, full frame; a window's shape does not count, but that of the first
        view."""
        focal_mm = camera.fy / camera.height * self.home.camera.height / self.home.camera.width * SENSOR
        return math.inf if radius == 0 else focal_mm / (2 * radius * 1000 * self.unit)


def set_stage(subject: Subject, home: Viewpoint, folder: Path, longest: int, unit: float) -> Stage:
    """Look once from where visitors begin."""
    names = {view.name: view for view in subject.views}
    small = fitted(home.camera, home.camera.width / home.camera.height, 160)
    seen = draw(subject.model, small, 1)
    assert seen is not None
    if seen.picture.holes.all():
        raise ValueError(f"{subject.source}: the first view shows nothing; give --eye and --look-at, or another --view")
    return Stage(subject, names, home, seen.picture, folder, longest, unit)


def fitted(camera: Camera, aspect: float, longest: int) -> Camera:
    """The camera's pose and vertical field of view in a picture of another shape, its longer side so many pixels."""
    width, height = (longest, longest / aspect) if aspect >= 1 else (longest * aspect, longest)
    width, height = max(8, round(width)), max(8, round(height))
    focal = camera.fy * height / camera.height
    return Camera(camera.camera_to_world, focal, focal, width / 2, height / 2, width, height)


def camera_of(position: np.ndarray, wxyz: np.ndarray, fov: float, size: tuple[int, int]) -> Camera:
    """The camera of a browser (OpenCV axes, vertical field of view in radians) in a picture of `size` (width,
    height)."""
    pose = np.concatenate([matrix(wxyz) * [1, -1, -1], np.asarray(position, float)[:, None]], axis=1)
    focal = 0.5 * size[1] / math.tan(fov / 2)
    return Camera(pose, focal, focal, size[0] / 2, size[1] / 2, *size)
