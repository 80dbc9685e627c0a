"""The lens before a scene: flags → the lens of each picture, once its disparity is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from dofnerf.optics.lens import Lens, aperture_from_f_number, inverse
from dofnerf.scenes import Viewpoint
from dofnerf.studio.lens_config import (
    FocusConfig,
    ShapeConfig,
    automatic_aperture,
    check_aperture,
    check_layers,
    check_light,
    check_positive,
    largest_blur,
)
from dofnerf.studio.rgbd import RGBD

LAYERS = 8
MOST_SAMPLES = 1 << 16
MOST_STOPS = 32.0
SENSOR = 36.0  # millimetres: full frame
_OPTIONAL = tyro.conf.arg(help_behavior_hint="(optional)")
_CHECK = "--aperture, --fstop, --unit and --focus"


@dataclass(frozen=True)
class ShotConfig(ShapeConfig):
    """How wide the lens is open. Everything is sharp if nothing is said; with --focus or --focus-at alone, the lens is
    opened until the largest blur radius is 2.5 % of the picture's width."""

    aperture: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: 0, all in focus)")] = None
    """Aperture in pixels × scene units: the blur radius in pixels is aperture × |1/focus − 1/depth|."""
    paper_k: Annotated[float | None, _OPTIONAL] = None
    """The same as the paper's K, twice the aperture."""
    fstop: Annotated[float | None, _OPTIONAL] = None
    """The f-number instead, such as 1.8; the focal length is the camera's, on a sensor of --sensor-width."""
    sensor_width: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: 36, full frame)")] = None
    """Width of the sensor for --fstop, in millimetres."""
    unit: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: 1)")] = None
    """Metres in a scene unit, for --fstop. Poses from photos alone have no scale: measure something to know it."""
    as_shot: bool = False
    """The lens of the photo itself: the one that the run learned, or that --camera names for the frame."""
    layers: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: 8)")] = None
    """Depth layers of the blur: 1 is the paper's blur (of splats with a round opening: each by its own depth)."""
    lens_samples: int = 0
    """Take the picture as the mean of so many sharp views from all over the lens: exact at every occlusion, and slow.
    64 for a look, 256 and more for large blur; 0 is the quick blur."""
    light: Annotated[float | Literal["srgb"] | None, tyro.conf.arg(help_behavior_hint="(default: the run's; 2.2)")] = (
        None
    )
    """Curve between display values and linear light, in which blur adds up: a gamma from 0.2 to 10, or srgb."""
    exposure: float = 0.0
    """Stops by which the picture is brighter (or, below 0, darker): each doubles its light."""

    def check_all(self, focus: FocusConfig) -> None:
        """Refuse what no scene could make right."""
        super().check()
        focus.check()
        openings = {"--aperture": self.aperture, "--paper-k": self.paper_k, "--fstop": self.fstop}
        given = [flag for flag, value in openings.items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"{given[0]} and {given[1]} say the same thing: give one of them")
        if self.as_shot:
            focuses = {"--focus": focus.focus, "--focus-at": focus.focus_at}
            other = [*given, *(flag for flag, value in focuses.items() if value is not None)]
            if other:
                raise ValueError(f"--as-shot takes the lens of the photo, and {other[0]} another: give one of them")
        check_aperture("--aperture", self.aperture)
        check_aperture("--paper-k", self.paper_k)
        check_positive(("--fstop", self.fstop), ("--sensor-width", self.sensor_width), ("--unit", self.unit))
        for flag, value in (("--sensor-width", self.sensor_width), ("--unit", self.unit)):
            if value is not None and self.fstop is None:
                raise ValueError(f"{flag} is for --fstop: give that too")
        if self.layers is not None:
            check_layers(self.layers)
        if not 0 <= self.lens_samples <= MOST_SAMPLES:
            raise ValueError(f"--lens-samples must be 0 to {MOST_SAMPLES}, found {self.lens_samples}")
        if self.light is not None:
            check_light(self.light)
        if not abs(self.exposure) <= MOST_STOPS:  # NaN too
            raise ValueError(f"--exposure must be -{MOST_STOPS:g} to {MOST_STOPS:g} stops, found {self.exposure:g}")

    def resolve(self, view: Viewpoint, picture: RGBD, focus: FocusConfig) -> tuple[Lens | None, str]:
        """The lens for a view whose sharp `picture` is known, and where it comes from in words; None is all in
        focus."""
        if self.as_shot:
            assert view.lens is not None  # checked when the views were chosen
            lens, why = view.lens, "as shot"
        else:
            opening = self._opening(view)
            focused = focus.focus is not None or focus.focus_at is not None
            if (opening is None and not focused) or (opening is not None and opening[0] == 0):
                return None, "all in focus"
            if picture.holes.all() and focus.focus is None:
                raise ValueError("it shows nothing to focus on; give --focus, or another view")
            disparity, where = focus.disparity(picture)
            aperture, how = opening or automatic_aperture(picture, [disparity])
            lens, why = Lens(aperture, inverse(disparity)), f"{how}; focus {where}"
        if lens.aperture == 0:
            return None, why
        largest_blur(picture, lens.aperture, [lens.focus_disparity], _CHECK)
        return lens, why

    def _opening(self, view: Viewpoint) -> tuple[float, str] | None:
        """The aperture that the flags give, and where it comes from in words."""
        if self.aperture is not None:
            return self.aperture, "as given"
        if self.paper_k is not None:
            return self.paper_k / 2, "K as given"
        if self.fstop is None:
            return None
        camera, sensor, unit = view.camera, self.sensor_width or SENSOR, self.unit or 1.0
        focal_length = camera.fx / camera.width * sensor
        words = f"f/{self.fstop:g} at {focal_length:.3g} mm, a scene unit being {unit:g} m"
        return aperture_from_f_number(self.fstop, focal_length, camera.fx, 1000 * unit), words
