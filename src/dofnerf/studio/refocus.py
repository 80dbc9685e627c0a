"""Put a lens in front of any picture with a depth map: `dofnerf refocus`.

Everything is checked before the work starts, so nothing is written when anything is wrong. torch is imported only then,
so that help and most errors come at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
import tyro

from dofnerf.files import atomic, has_more_than_8_bits, is_linear, write_deep_png, write_image, write_video
from dofnerf.files.outputs import check_file
from dofnerf.files.pictures import IMAGE_SUFFIXES, to_bytes
from dofnerf.files.progress import track
from dofnerf.optics.lens import Lens
from dofnerf.studio.flags import (
    FPS,
    LAYERS,
    LIGHT,
    MOST_FRAMES,
    OPTIONAL,
    SMALLEST_MP4,
    BlurFlags,
    LensFlags,
    automatic_aperture,
    check_within,
    default,
    depth_in_words,
    given,
    largest_blur,
)
from dofnerf.studio.rgbd import RGBD, DepthConfig, estimated_rgbd, read_rgbd

if TYPE_CHECKING:
    from dofnerf.optics.light import Curve
    from dofnerf.train.scale import PhotoOptics


@dataclass(frozen=True)
class RefocusBlur(BlurFlags):
    """How blur is made. EXR is linear, whatever --light is."""

    norm: Literal["paper", "unit"] = "paper"
    """How the light of a blur disc is divided: by r² + 0.2 (paper), or so that each disc keeps exactly its light
    (unit)."""


@dataclass(frozen=True)
class OutputConfig:
    """What is written. Files are replaced only when the new ones are complete."""

    out: Annotated[Path | None, default("IMAGE-refocused.png or .exr beside IMAGE; none if there is a --sweep")] = None
    """The refocused picture: .png, .jpg, .exr (linear light) and others."""
    sweep: Annotated[Path | None, OPTIONAL] = None
    """A rack focus through the depths of the picture, as .gif (near, far and back, in a loop) or .mp4 (near to far)."""
    frames: int = 48
    """Frames of the sweep, 2 to 10000."""
    fps: float = 24.0
    """Frames a second of the sweep, 0.1 to 240; a GIF rounds the time of a frame to 1/100 s."""

    def check(self, inputs: Iterable[Path]) -> None:
        """Refuse what could not be written, and what would overwrite an input."""
        check_within("--frames", self.frames, 2, MOST_FRAMES)
        check_within("--fps", self.fps, *FPS)
        if self.out is not None:
            check_file("--out", self.out, IMAGE_SUFFIXES)
            if self.out.resolve() in [path.resolve() for path in inputs]:
                raise ValueError(f"--out {self.out}: would overwrite the input")
        if self.sweep is not None:
            check_file("--sweep", self.sweep, (".gif", ".mp4"))


@dataclass(frozen=True)
class RefocusConfig:
    """Put a lens in front of a picture with a depth map, or whose depth a network guesses.

    The depth map has one value per pixel of the picture: PNG (8 or 16 bits), TIFF, EXR or .npy. Scene units are
    whatever the depth is in; with --fstop, metres.

    For example:
      dofnerf refocus photo.jpg depth.png --focus-at 320,200
      dofnerf refocus photo.jpg depth.png --fstop 1.8 --focal-length 50 --focus 2.5 --out sharp-at-2.5m.png
      dofnerf refocus photo.jpg disparity.npy --depth-kind disparity --aperture 20 --blades 6
      dofnerf refocus photo.jpg --depth network --focus-at 320,200     (needs the extra `depth`)
      dofnerf refocus render.exr depth.exr --focus inf --out far.exr --sweep rack.mp4 --frames 96
    """

    EVERYDAY: ClassVar = ("estimate", "depth_kind", "depth_scale", "aperture", "fstop", "focal_length", "focus",
    "focus_at",
                          "blades", "layers", "out", "sweep")  # fmt: skip

    image: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="IMAGE")]
    """The picture, sharp all over: PNG, JPEG, TIFF, WebP; EXR or HDR (linear light), or a camera's RAW. 16 bits are
    kept."""
    depth: Annotated[
        tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="DEPTH", help_behavior_hint="(optional)")
    ] = None
    """Its depth or disparity map, of the same size; not with --depth network."""
    depth_map: DepthConfig = field(default_factory=DepthConfig)
    lens: LensFlags = field(default_factory=LensFlags)
    blur: RefocusBlur = field(default_factory=RefocusBlur)
    output: OutputConfig = field(default_factory=OutputConfig)


def run(config: RefocusConfig) -> list[Path]:
    """Refocus as the config says, with a line about each step; returns the files that were written."""
    out, sweep = config.output.out, config.output.sweep
    if out is None and sweep is None:
        out = config.image.with_name(f"{config.image.stem}-refocused{'.exr' if is_linear(config.image) else '.png'}")
    config.lens.check()
    config.blur.check()
    if config.lens.fstop is not None and config.lens.focal_length is None:
        raise ValueError("--fstop needs --focal-length here: a picture does not say by which lens it was taken")
    OutputConfig(out, sweep, config.output.frames, config.output.fps).check(
        [config.image, *([] if config.depth is None else [config.depth])]
    )
    light = LIGHT if config.blur.light is None else config.blur.light
    picture = read_picture(config, light)
    focus, where = config.lens.disparity(picture)
    height, width = picture.disparity.shape
    if sweep is not None and sweep.suffix.lower() == ".mp4" and min(height, width) < SMALLEST_MP4:
        raise ValueError(f"--sweep {sweep}: a picture of {width} × {height} pixels is too small for MP4; use .gif")
    if config.lens.fstop is not None and config.lens.unit is None and picture.relative:
        raise ValueError(
            "--fstop needs depth in metres, and this disparity has no unit: add --depth-scale or --unit, or use "
            "--aperture"
        )
    far, near = picture.disparity_range()
    focuses = ([focus] if out is not None else []) + ([far, near] if sweep is not None else [])
    aperture, why = config.lens.opening(None, in_metres(), max(width, height)) or automatic_aperture(picture, focuses)
    lenses = [Lens(aperture, focus_disparity=disparity) for disparity in focuses]
    largest = largest_blur(picture, lenses, "--aperture, --fstop, --unit, --focus and --depth-scale")

    layers, shape = config.blur.layers or LAYERS, config.lens.aperture_shape()
    farthest, nearest = (depth_in_words(disparity) for disparity in picture.disparity_range(tail=0))
    print(f"picture  {config.image}, {width} × {height}; depth {nearest} to {farthest}")
    words = f"aperture {aperture:.4g} px × scene units (the paper's K = {2 * aperture:.4g}), {why}; {shape.describe()}"
    print(f"lens     {words}{f'; {layers} layers' if layers > 1 else ''}")
    if out is not None:
        print(f"focus    {depth_in_words(focus)} ({where})")
    if sweep is not None:
        ends = f"{depth_in_words(near)} to {depth_in_words(far)}"
        print(f"sweep    focus {ends}, {config.output.frames} frames at {config.output.fps:g} a second")
    print(f"blur     up to {largest:.3g} px in radius", flush=True)

    from dofnerf.models import Blur
    from dofnerf.studio.shoot import as_shown, cut_layers, through_lens

    blur = Blur(layers, light)
    cut = cut_layers(picture, blur)

    def photograph(disparity: float, linear: bool = False) -> np.ndarray:
        lens = Lens(aperture, focus_disparity=disparity, shape=shape)
        return as_shown(picture, through_lens(picture, lens, blur, cut, config.blur.norm), blur.light, linear)

    with ExitStack() as together:  # the picture takes its place only when the sweep is whole as well
        if out is not None:
            kept_back = together.enter_context(atomic(out))
            deep = out.suffix.lower() == ".png" and has_more_than_8_bits(config.image)
            (write_deep_png if deep else write_image)(kept_back, photograph(focus, is_linear(out)))
        if sweep is not None:
            focuses = sweep_focuses(far, near, config.output.frames, loop=sweep.suffix.lower() == ".gif")
            write_video(sweep, rack_focus(photograph, focuses), config.output.fps)
    written = [path for path in (out, sweep) if path is not None]
    for path in written:
        print(f"wrote    {path}")
    return written


def read_picture(config: RefocusConfig, light: Curve) -> RGBD:
    """The picture with its depth, from the map or by the network."""
    depth = config.depth_map
    if (config.depth is None) is (depth.estimate is None):
        raise ValueError("give a depth map DEPTH, or --depth network to have depth guessed from the picture (not both)")
    if config.depth is not None:
        if depth.model != DepthConfig.model:
            raise ValueError("--model is for --depth network: a depth map needs none")
        return read_rgbd(config.image, config.depth, depth)
    for flag in given(depth, but=("estimate", "model")):
        raise ValueError(f"{flag} is about a depth map, and --depth network has none: leave it away")
    print(f"depth    by the network {depth.model}", flush=True)
    return estimated_rgbd(config.image, depth, light)


def in_metres() -> PhotoOptics:
    """A depth map is in metres unless --unit says otherwise."""
    from dofnerf.train.scale import PhotoOptics, Scale

    return PhotoOptics(scale=Scale(1.0, "the depth map"))


def sweep_focuses(far: float, near: float, frames: int, loop: bool) -> list[float]:
    """Focus disparities from near to far, easing in and out; a loop also comes back, and its last frame leads to its
    first."""
    step = np.arange(frames)
    phase = np.minimum(step, frames - step) * (2 * np.pi / frames) if loop else step * (np.pi / (frames - 1))
    return [float(near + (far - near) * share) for share in (1 - np.cos(phase)) / 2]


def rack_focus(photograph: Callable[[float], np.ndarray], focuses: list[float]) -> Iterator[np.ndarray]:
    """Frames (H, W, 3) uint8, one a focus disparity. A way back costs nothing."""
    wanted = Counter(focuses)
    kept: dict[float, np.ndarray] = {}
    for focus in track(focuses, "sweep"):
        frame = kept[focus] if focus in kept else to_bytes(photograph(focus))
        if wanted[focus] > 1:
            kept[focus] = frame
        yield frame
