"""How a person sets the lens: flags → aperture and focus in the units of `dofnerf.optics`, checked and put in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from dofnerf.optics.lens import aperture_from_f_number, focal_length_pixels
from dofnerf.studio.rgbd import RGBD

if TYPE_CHECKING:
    from dofnerf.optics.shapes import Shape

AUTOMATIC_BLUR = 0.025  # the largest blur radius of an automatic aperture, in widths of the picture
MOST_BLADES = 64  # a disc, to the eye
MOST_LAYERS = 256  # each is a picture in memory
GAMMAS = 0.2, 10.0  # beyond, eight bits hold next to nothing but black or white


@dataclass(frozen=True)
class ShapeConfig:
    """The shape of the opening, and so of every blurred point."""

    blades: int = 0
    """Blades of the aperture: 0 for a disc, 3 or more for a polygon (6: hexagonal highlights)."""
    rotation: float = 0.0
    """Turn of the polygon, in degrees, counter-clockwise."""

    def check(self) -> None:
        """Refuse what no picture could make right."""
        if self.blades != 0 and not 3 <= self.blades <= MOST_BLADES:
            raise ValueError(f"--blades must be 0 (a disc) or 3 to {MOST_BLADES}, found {self.blades}")
        if not math.isfinite(self.rotation):
            raise ValueError(f"--rotation must be finite, found {self.rotation:g}")

    def aperture_shape(self) -> Shape:
        """The shape, checked."""
        from dofnerf.optics.shapes import shape_of

        return shape_of(None, self.blades, self.rotation)


@dataclass(frozen=True)
class LensConfig(ShapeConfig):
    """How wide the lens is open, and the shape of its blur. Without --aperture or --fstop it is opened until the
    largest blur radius is 2.5 % of the picture's width."""

    aperture: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: automatic)")] = None
    """Aperture in pixels × scene units: the blur radius in pixels is aperture × |1/focus − 1/depth|. Half of the
    paper's K."""
    fstop: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """The f-number instead, such as 1.8. Needs --focal-length, and depth in metres, far beyond the focal length."""
    focal_length: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """Focal length of the lens for --fstop, in millimetres."""
    sensor_width: float = 36.0
    """Width of the sensor for --fstop, in millimetres; 36 is full frame."""
    norm: Literal["paper", "unit"] = "paper"
    """How the light of a blur disc is divided: by r² + 0.2 (paper), or so that each disc keeps exactly its light
    (unit)."""
    light: float | Literal["srgb"] = 2.2
    """Curve between display values and linear light, in which blur adds up: a gamma from 0.2 to 10, or srgb. EXR is
    linear."""
    layers: int = 1
    """Depth layers for occlusion: 1 is the paper's blur; 4 to 16 is slower and cleaner where near things overlap far
    ones."""

    def check(self) -> None:
        """Refuse what no picture could make right."""
        super().check()
        if self.aperture is not None and self.fstop is not None:
            raise ValueError("--aperture and --fstop say the same thing: give one of them")
        check_aperture("--aperture", self.aperture)
        if (self.fstop is None) != (self.focal_length is None):
            raise ValueError("--fstop and --focal-length go together: give both or none")
        check_positive(
            ("--fstop", self.fstop), ("--focal-length", self.focal_length), ("--sensor-width", self.sensor_width)
        )
        check_light(self.light)
        check_layers(self.layers)

    def resolve(self, picture: RGBD, focuses: Sequence[float]) -> tuple[float, str]:
        """The aperture in pixels × scene units for these focus disparities, and where it comes from in words."""
        width = picture.disparity.shape[1]
        if self.aperture is not None:
            return self.aperture, "as given"
        if self.fstop is not None and self.focal_length is not None:
            if picture.relative:
                raise ValueError(
                    "--fstop needs depth in metres, and PNG disparity has no unit: add --depth-scale or use --aperture"
                )
            focal_px = focal_length_pixels(self.focal_length, self.sensor_width, width)
            words = f"f/{self.fstop:g} at {self.focal_length:g} mm on a sensor {self.sensor_width:g} mm wide"
            return aperture_from_f_number(self.fstop, self.focal_length, focal_px), words
        return automatic_aperture(picture, focuses)

    def describe_blur(self) -> str:
        """The blur's shape in words."""
        shape = self.aperture_shape().describe()
        return shape if self.layers == 1 else f"{shape}; {self.layers} layers"


@dataclass(frozen=True)
class FocusConfig:
    """What is sharp. Without either flag: the middle of the picture."""

    focus: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: the middle of the picture)")] = None
    """Focus depth in scene units, along the optical axis; inf for infinity."""
    focus_at: Annotated[str | None, tyro.conf.arg(metavar="X,Y", help_behavior_hint="(optional)")] = None
    """Focus on the pixel in column X, row Y, counted from 0 at the top left (the median depth around it)."""

    def check(self) -> None:
        """Refuse what no picture could make right."""
        if self.focus is not None and self.focus_at is not None:
            raise ValueError("--focus and --focus-at say the same thing: give one of them")
        if self.focus is not None and not self.focus > 0:
            raise ValueError(f"--focus must be above 0, found {self.focus:g}")
        if self.focus_at is not None and not re.fullmatch(r"-?\d+,-?\d+", self.focus_at):
            raise ValueError(f"--focus-at must be two whole numbers X,Y such as 320,200, found {self.focus_at!r}")

    def disparity(self, picture: RGBD) -> tuple[float, str]:
        """1 / the focus depth, and where it comes from in words."""
        if self.focus is not None:
            return 1 / self.focus, "as given"
        if self.focus_at is None:
            return picture.disparity_in_the_middle(), "in the middle of the picture"
        x, y = map(int, self.focus_at.split(","))
        height, width = picture.disparity.shape
        if not (0 <= x < width and 0 <= y < height):
            raise ValueError(f"--focus-at {x},{y} lies outside the picture of {width} × {height} pixels")
        try:
            return picture.disparity_at(x, y), f"at pixel {x},{y}"
        except ValueError as error:
            raise ValueError(f"--focus-at: {error}") from None


def automatic_aperture(picture: RGBD, focuses: Sequence[float]) -> tuple[float, str]:
    """An aperture that blurs visibly, and not too much, at these focus disparities; and where it comes from in
    words."""
    far, near = picture.disparity_range()
    reach = max(abs(focus - end) for focus in focuses for end in (far, near))
    if reach == 0:
        return 0.0, "as everything lies at the focus"
    return AUTOMATIC_BLUR * picture.disparity.shape[1] / reach, "chosen automatically"


def check_aperture(flag: str, aperture: float | None) -> None:
    """Refuse an opening that no lens has."""
    if aperture is not None and not (aperture >= 0 and math.isfinite(aperture)):
        raise ValueError(f"{flag} must be 0 or more and finite, found {aperture:g}")


def check_positive(*flags: tuple[str, float | None]) -> None:
    """Refuse values, where given, that are not above 0."""
    for flag, value in flags:
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{flag} must be positive and finite, found {value:g}")


def check_light(light: float | str) -> None:
    """Refuse a curve that eight bits cannot hold."""
    if not isinstance(light, str) and not GAMMAS[0] <= light <= GAMMAS[1]:  # NaN too
        raise ValueError(f"--light must be srgb or a gamma from {GAMMAS[0]:g} to {GAMMAS[1]:g}, found {light:g}")


def check_layers(layers: int) -> None:
    """Refuse more layers than memory holds."""
    if not 1 <= layers <= MOST_LAYERS:
        raise ValueError(f"--layers must be 1 to {MOST_LAYERS}, found {layers}")


def largest_blur(
    picture: RGBD, aperture: float, focuses: Sequence[float], flags: str = "--aperture, --focus and --depth-scale"
) -> float:
    """The largest blur radius in pixels over these focus disparities; refuses what can only be a mistake in units, and
    names the `flags` that may have made it."""
    from dofnerf.optics.scattering import LARGEST

    far, near = float(picture.disparity.min()), float(picture.disparity.max())
    largest = max(aperture * abs(focus - end) for focus in focuses for end in (far, near))
    if not largest <= LARGEST:  # NaN too
        raise ValueError(
            f"aperture {aperture:g} blurs the picture by up to {largest:.3g} pixels: check {flags} "
            f"(depth runs from {depth_in_words(near)} to {depth_in_words(far)})"
        )
    return largest


def depth_in_words(disparity: float) -> str:
    """1 / disparity in four digits."""
    return f"{1 / disparity:.4g}" if disparity > 0 else "infinity"
