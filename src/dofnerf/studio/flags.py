"""The flags that verbs share, each group once: the lens, how blur is made, the viewpoint, the drawing of a .ply.

A group is a dataclass whose fields become flags. It checks itself without looking at any file; `given` lists what of it
was given, from which contradictions between groups are found. torch is imported only where a lens is made, so that help
and most errors come at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from dofnerf.camera import FULL_FRAME, Camera

if TYPE_CHECKING:
    from dofnerf.optics import Lens, Shape
    from dofnerf.studio.rgbd import RGBD
    from dofnerf.train.scale import PhotoOptics, Scale

AUTOMATIC_BLUR = 0.025  # the largest blur radius of an automatic aperture, in widths of the picture
LIGHT = 2.2  # of pictures that say nothing about it
LAYERS = 8
LEARNED = "learned"  # --shape: the photos' own
MOST_BLADES = 64  # a disc, to the eye
MOST_LAYERS = 256  # each is a picture in memory
MOST_SAMPLES = 1 << 16
MOST_STOPS = 32.0
GAMMAS = 0.2, 10.0  # beyond, eight bits hold next to nothing but black or white
LARGEST_SIDE = 1 << 14  # pixels; a billion of them no memory holds
FPS = 0.1, 240.0
MOST_FRAMES = 10_000
SMALLEST_MP4 = 16  # pixels; encoders fail below it

Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    tyro.conf.arg(help="Where to compute; auto takes CUDA where it works, else the CPU."),
]
OPTIONAL = tyro.conf.arg(help_behavior_hint="(optional)")


def default(words: str, **options: Any) -> Any:
    """How a flag's help says what holds when it is not given."""
    return tyro.conf.arg(help_behavior_hint=f"(default: {words})", **options)


def given(*groups: Any, but: Collection[str] = ()) -> list[str]:
    """The flags of these groups that differ from their defaults, except for the fields named in `but`."""
    flags = []
    for group in groups:
        for field in fields(group):
            default = field.default if field.default_factory is MISSING else field.default_factory()
            if field.name not in but and getattr(group, field.name) != default:
                flags.append(f"--{field.name.replace('_', '-')}")
    return flags


def one_of(flags: Sequence[str], why: str = "say the same thing") -> None:
    """Refuse more than one of these flags."""
    if len(flags) > 1:
        raise ValueError(f"{flags[0]} and {flags[1]} {why}: give one of them")


def check_aperture(flag: str, aperture: float | None) -> None:
    """Refuse an aperture that no lens has."""
    if aperture is not None and not (aperture >= 0 and math.isfinite(aperture)):
        raise ValueError(f"{flag} must be 0 or more and finite, found {aperture:g}")


def check_positive(group: Any, *names: str) -> None:
    """Refuse values of these fields, where given, that are not above 0."""
    for name in names:
        value = getattr(group, name)
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ValueError(f"--{name.replace('_', '-')} must be positive and finite, found {value:g}")


def check_within(flag: str, value: float | None, low: float, high: float, unit: str = "") -> None:
    """Refuse a value, where given, outside `low` … `high`; NaN too."""
    if value is not None and not low <= value <= high:
        raise ValueError(f"{flag} must be {low:g} to {high:g}{unit}, found {value:g}")


def vector(flag: str, text: str) -> tuple[float, float, float]:
    """Three finite numbers written X,Y,Z."""
    try:
        x, y, z = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{flag} must be three numbers X,Y,Z such as 0,-1,2.5, found {text!r}") from None
    if not all(math.isfinite(value) for value in (x, y, z)):
        raise ValueError(f"{flag} must be finite, found {text!r}")
    return x, y, z


def shape_by(name: str | None, blades: int, rotation: float, photos: PhotoOptics | None) -> Shape:
    """An aperture's shape by its name, blades and rotation in degrees; `LEARNED` is that of a run's photos."""
    from dofnerf.optics import shape_of

    if name != LEARNED:
        return shape_of(name, blades, rotation)
    if photos is None or photos.shape is None:
        raise ValueError("no character of a lens was learned here; train with --character, or give another shape")
    return photos.shape


@dataclass(frozen=True)
class ShapeFlags:
    """The shape of the aperture, and so of every blurred point."""

    shape: Annotated[str | None, default("by --blades", metavar="NAME")] = None
    """Shape of the aperture by its name: disc, blades, learned (your lens, with the character that training by
    --character found), or one that a plug-in adds."""
    blades: int = 0
    """Blades of the aperture: 0 for a disc, 3 or more for a polygon."""
    rotation: float = 0.0
    """Turn of the shape, in degrees, counter-clockwise."""

    def check(self) -> None:
        """Refuse what no picture could make right."""
        if self.blades != 0 and not 3 <= self.blades <= MOST_BLADES:
            raise ValueError(f"--blades must be 0 (a disc) or 3 to {MOST_BLADES}, found {self.blades}")
        if not math.isfinite(self.rotation):
            raise ValueError(f"--rotation must be finite, found {self.rotation:g}")
        if self.shape == LEARNED and (self.blades or self.rotation):
            raise ValueError(f"--shape {LEARNED} has blades and a turn of its own: leave --blades and --rotation away")
        if self.shape not in (None, LEARNED):
            self.aperture_shape()

    @property
    def shaped(self) -> bool:
        """Whether a flag says what shape the aperture has."""
        return self.shape is not None or self.blades != 0 or self.rotation != 0

    def aperture_shape(self, photos: PhotoOptics | None = None) -> Shape:
        """The shape that the flags ask for, of a run whose `photos` are known."""
        try:
            return shape_by(self.shape, self.blades, self.rotation, photos)
        except ValueError as error:
            raise ValueError(f"--shape: {error}") from None


@dataclass(frozen=True)
class LensFlags(ShapeFlags):
    """The lens: how wide it is open (--aperture, --paper-k, --stops or --fstop), what is in focus, and the shape of its
    aperture. Where it is to be open and no flag says how wide, the largest blur radius is 2.5 % of the picture's
    width."""

    aperture: Annotated[float | None, default("0, all in focus, for render; else automatic")] = None
    """Aperture in pixels × scene units: the blur radius in pixels is aperture × |1/focus − 1/depth|."""
    paper_k: Annotated[float | None, OPTIONAL] = None
    """The aperture as the paper's K, twice as much."""
    stops: Annotated[float | None, OPTIONAL] = None
    """The aperture in stops wider (above 0) or narrower (below) than the lens that was found for the run's photos; 0 is
    theirs."""
    fstop: Annotated[float | None, OPTIONAL] = None
    """The aperture as an f-number, such as 1.8. Needs the length of a scene unit: --unit, the run's metres, or what the
    photos' EXIF says."""
    focal_length: Annotated[float | None, default("the camera's, on the sensor")] = None
    """Focal length of the lens for --fstop, in millimetres; refocus, which knows no camera, needs it."""
    sensor_width: Annotated[float | None, default("the photos', by EXIF; 36, full frame")] = None
    """Width of the sensor for --fstop, in millimetres, along the longer side of the picture."""
    unit: Annotated[float | None, default("what the run knows")] = None
    """Metres in a scene unit, for f-numbers. Poses from photos alone have no scale: EXIF may give it, or measure
    something."""
    focus: Annotated[float | None, default("the middle of the picture")] = None
    """Focus depth in scene units, along the optical axis; inf for infinity."""
    focus_at: Annotated[str | None, tyro.conf.arg(metavar="X,Y", help_behavior_hint="(optional)")] = None
    """Focus on the pixel in column X, row Y, counted from 0 at the top left; the median depth around it counts."""

    def check(self, takes_unit: bool = False) -> None:
        """Refuse what no picture could make right. Where f-numbers are shown, or depth is
        written in metres, --unit is taken without --fstop."""
        super().check()
        one_of([flag for flag in given(self) if flag in ("--aperture", "--paper-k", "--stops", "--fstop")])
        one_of([flag for flag in given(self) if flag in ("--focus", "--focus-at")])
        check_aperture("--aperture", self.aperture)
        check_aperture("--paper-k", self.paper_k)
        check_within("--stops", self.stops, -MOST_STOPS, MOST_STOPS)
        check_positive(self, "fstop", "focal_length", "sensor_width", "unit")
        needed = ("--focal-length", "--sensor-width", *(() if takes_unit else ("--unit",)))
        for flag in given(self) if self.fstop is None else ():
            if flag in needed:
                raise ValueError(f"{flag} is for --fstop: give that too")
        if self.focus is not None and not self.focus > 0:
            raise ValueError(f"--focus must be above 0, found {self.focus:g}")
        if self.focus_at is not None and not re.fullmatch(r"-?\d+,-?\d+", self.focus_at):
            raise ValueError(f"--focus-at must be two whole numbers X,Y such as 320,200, found {self.focus_at!r}")

    @property
    def opened(self) -> bool:
        """Whether a flag says how wide the lens is open."""
        return not (self.aperture is self.paper_k is self.stops is self.fstop is None)

    @property
    def focused(self) -> bool:
        """Whether a flag says where the lens is focused."""
        return self.focus is not None or self.focus_at is not None

    def scale(self, photos: PhotoOptics | None) -> Scale | None:
        """The length of a scene unit: by --unit, or as the run knows it."""
        from dofnerf.train.scale import Scale

        if self.unit is not None:
            return Scale(self.unit, "--unit")
        return None if photos is None else photos.scale

    def sensor(self, photos: PhotoOptics | None) -> float:
        """Width of the sensor in millimetres, along the longer side of the picture."""
        return self.sensor_width or (photos and photos.sensor_width) or FULL_FRAME

    def focal_mm(self, camera: Camera, photos: PhotoOptics | None) -> float:
        """Focal length in millimetres: by --focal-length, or the camera's on its sensor."""
        return self.focal_length or camera.fx / max(camera.width, camera.height) * self.sensor(photos)

    def opening(
        self, camera: Camera | None, photos: PhotoOptics | None = None, across: int = 0
    ) -> tuple[float, str] | None:
        """(aperture in pixels × scene units, where it comes from in words) for a picture by this camera, or, where none
        is known, with so many pixels `across`, along its longer side; of a run whose `photos` are known. None if no
        flag says it."""
        if self.aperture is not None:
            return self.aperture, "as given"
        if self.paper_k is not None:
            return self.paper_k / 2, "K as given"
        if self.stops is not None:
            if photos is None or photos.radius is None or camera is None:
                raise ValueError(
                    "--stops is relative to the lens that a run found for its photos, and there is none here; "
                    "give --aperture, or --fstop with --unit"
                )
            return photos.radius * 2 ** (self.stops / 2) * camera.fx, stops_in_words(self.stops)
        return None if self.fstop is None else self._by_f_number(camera, photos, across)

    def _by_f_number(self, camera: Camera | None, photos: PhotoOptics | None, across: int) -> tuple[float, str]:
        """The aperture of --fstop, in words too."""
        from dofnerf.optics.lens import aperture_from_f_number, focal_length_pixels

        assert self.fstop is not None
        scale, sensor = self.scale(photos), self.sensor(photos)
        if scale is None:
            other = "--stops 0 for the photos' own lens" if photos and photos.radius is not None else "--aperture"
            raise ValueError(
                "--fstop: without the length of a scene unit there are no f-numbers; "
                f"give --unit METRES, or instead of --fstop {other}"
            )
        if camera is not None:
            if self.focal_length is not None and self.sensor_width is not None:
                raise ValueError(
                    "--focal-length and --sensor-width: the camera's field of view gives one from the other; give one"
                )
            focal_px, focal_mm, across = camera.fx, self.focal_mm(camera, photos), max(camera.width, camera.height)
        elif self.focal_length is not None:
            focal_px, focal_mm = focal_length_pixels(self.focal_length, sensor, across), self.focal_length
        else:
            raise ValueError("--fstop needs --focal-length where there is no camera to take it from")
        sensor = focal_mm * across / focal_px
        words = f"f/{self.fstop:g} at {focal_mm:.3g} mm on a sensor {sensor:.3g} mm wide, {scale.describe()}"
        aperture = aperture_from_f_number(self.fstop, focal_mm, focal_px, 1000 * scale.metres)
        filled = photos.filled if self.shape == LEARNED and photos is not None else 1.0  # by area, as it was measured
        return aperture / filled, words

    def disparity(self, picture: RGBD) -> tuple[float, str]:
        """(1 / the focus depth, where it comes from in words)."""
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

    def resolve(self, camera: Camera, picture: RGBD, photos: PhotoOptics | None = None) -> tuple[Lens | None, str]:
        """(the lens before this camera, whose sharp `picture` is known, where it comes from in words), of a run whose
        `photos` are known; None is all in focus, as it is when no flag opens or focuses the lens."""
        from dofnerf.optics import Lens
        from dofnerf.optics.lens import inverse

        opening = self.opening(camera, photos)
        if (opening is None and not self.focused) or (opening is not None and opening[0] == 0):
            return None, "all in focus"
        if picture.holes.all() and self.focus is None:
            raise ValueError("it shows nothing to focus on; give --focus, or another view")
        disparity, where = self.disparity(picture)
        aperture, how = opening or automatic_aperture(picture, [disparity])
        lens = Lens(aperture, inverse(disparity), self.aperture_shape(photos))
        if lens.aperture == 0:
            return None, f"{how}; focus {where}"
        largest_blur(picture, [lens])
        return lens, f"{how}; focus {where}"


def stops_in_words(stops: float) -> str:
    """How much wider or narrower than the photos' lens."""
    if stops == 0:
        return "the aperture of the photos"
    plural, way = "s" * (abs(stops) != 1), "wider" if stops > 0 else "narrower"
    return f"{abs(stops):g} stop{plural} {way} than the photos"


def automatic_aperture(picture: RGBD, focuses: Sequence[float]) -> tuple[float, str]:
    """An aperture that blurs visibly, and not too much, at these focus disparities; and where it comes from in
    words."""
    far, near = picture.disparity_range()
    reach = max(abs(focus - end) for focus in focuses for end in (far, near))
    if reach == 0:
        return 0.0, "as everything lies at the focus"
    return AUTOMATIC_BLUR * picture.disparity.shape[1] / reach, "chosen automatically"


def largest_blur(
    picture: RGBD, lenses: Sequence[Lens], flags: str = "--aperture, --stops, --fstop, --unit and --focus"
) -> float:
    """The largest blur radius in pixels by any of these lenses; refuses what can only be a mistake in units, and names
    the `flags` that may have made it."""
    from dofnerf.optics.scattering import LARGEST

    far, near = float(picture.disparity.min()), float(picture.disparity.max())
    worst = max(lenses, key=lambda lens: max(abs(lens.coc_radius_from_disparity(end)) for end in (far, near)))
    largest = max(abs(float(worst.coc_radius_from_disparity(end))) for end in (far, near))
    if not largest <= LARGEST:  # NaN too
        raise ValueError(
            f"aperture {worst.aperture:g} blurs the picture by up to {largest:.3g} pixels: check {flags} "
            f"(depth runs from {depth_in_words(near)} to {depth_in_words(far)})"
        )
    return largest


def depth_in_words(disparity: float) -> str:
    """1 / disparity in four digits."""
    return f"{1 / disparity:.4g}" if disparity > 0 else "infinity"


@dataclass(frozen=True)
class BlurFlags:
    """How blur is made."""

    layers: Annotated[int | None, default("8")] = None
    """Depth layers of the blur: 1 is the paper's; 4 to 16 are slower, and right where near things overlap far ones."""
    light: Annotated[float | Literal["srgb"] | None, default("the run's; 2.2")] = None
    """Curve between display values and linear light, in which blur adds up: a gamma from 0.2 to 10, or srgb."""

    def check(self) -> None:
        """Refuse what no picture could make right."""
        check_within("--layers", self.layers, 1, MOST_LAYERS)
        if not isinstance(self.light, str):
            check_within("--light", self.light, *GAMMAS, unit=", or srgb")


@dataclass(frozen=True)
class ViewpointFlags:
    """From where. A run shows its held-out views if nothing is said; a file of splats is seen whole, from the front."""

    view: Annotated[tuple[str, ...], tyro.conf.arg(metavar="I [I ...]", help_behavior_hint="(optional)")] = ()
    """Only these views: numbers from 0, or names of photos; of the run's scene, or of --camera."""
    views: Annotated[Literal["train", "test", "all"] | None, default("test")] = None
    """All views of the run that were trained on, or held out (test), or both."""
    camera: Annotated[Path | None, OPTIONAL] = None
    """Any cameras: a transforms.json (photos are not needed), a cameras.json of 3D Gaussian Splatting, or a scene."""
    eye: Annotated[str | None, default("in front of the splats", metavar="X,Y,Z")] = None
    """Where the camera is, in scene units."""
    look_at: Annotated[str | None, default("the splats' middle", metavar="X,Y,Z")] = None
    """The point in the middle of the picture, in scene units."""
    up: Annotated[str | None, default("0,-1,0; a run's own; what a file says", metavar="X,Y,Z")] = None
    """Which way is up; 3D Gaussian Splatting has y down. Exports of nerfstudio have 0,0,1, splats trained here
    0,1,0."""
    fov: Annotated[float | None, default("50; a run's own")] = None
    """Horizontal field of view in degrees, for a camera placed by --eye, --look-at or automatically."""
    width: Annotated[int | None, default("the camera's; 960 for a file")] = None
    """Width of the pictures in pixels; the same view in another size. Apertures count in these pixels."""
    height: Annotated[int | None, default("by the width")] = None
    """Height of the pictures in pixels."""

    @property
    def placed(self) -> bool:
        """Whether flags place the camera."""
        return bool(given(self, but=("view", "views", "camera", "width", "height")))

    def check(self, for_file: bool) -> None:
        """Refuse what no scene could make right."""
        for flag, value in (("--eye", self.eye), ("--look-at", self.look_at), ("--up", self.up)):
            if value is not None:
                vector(flag, value)
        if self.placed and (self.camera is not None or self.view or self.views is not None):
            raise ValueError(
                "--eye, --look-at, --up and --fov place a camera; --view, --views and --camera choose one: not both"
            )
        if self.view:
            one_of(
                given(self, but={field.name for field in fields(self)} - {"view", "views"}),
                "both choose among the views",
            )
        check_within("--fov", self.fov, 1, 170, " degrees")
        for flag, size in (("--width", self.width), ("--height", self.height)):
            if size is not None and not 1 <= size <= LARGEST_SIDE:
                raise ValueError(f"{flag} must be 1 to {LARGEST_SIDE} pixels, found {size}")
        if for_file and self.camera is None and (self.view or self.views is not None):
            raise ValueError(
                "a file of splats has no views of its own: give --camera FILE.json, or --eye and --look-at"
            )
        if not for_file and self.placed and (self.eye is None or self.look_at is None):
            raise ValueError("to place a camera before a run, give both --eye and --look-at")


@dataclass(frozen=True)
class SplatFileFlags:
    """How the splats of a file are drawn; a run has that in its settings."""

    blend: Annotated[Literal["display", "light"] | None, default("display, or what the file says")] = None
    """How the colours of a file's splats mix: as display values, as in the tools that most files come from, or as
    light, as in splats trained by dofnerf."""
    antialiased: bool = False
    """The file was trained antialiased (Mip-Splatting; gsplat and nerfstudio call it so)."""
    background: Annotated[str | None, default("0,0,0, or what the file says", metavar="R,G,B")] = None
    """What lies behind a file's splats: red, green, blue from 0 to 1."""

    def check(self, for_file: bool) -> None:
        """Refuse what no file could make right, and flags that a run has no use for."""
        if given(self) and not for_file:
            raise ValueError(f"{given(self)[0]} is for files of splats: a run knows how it is drawn")
        if self.background is not None and not all(0 <= part <= 1 for part in vector("--background", self.background)):
            raise ValueError(f"--background must be three numbers from 0 to 1, found {self.background}")
