"""Put a lens in front of any picture with a depth map: `dofnerf refocus`.

Everything is checked before the work starts, so nothing is written when anything is wrong. torch is imported only then,
so that help and most errors come at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro

from dofnerf.files import atomic, is_linear, write_image, write_video
from dofnerf.files.outputs import check_file
from dofnerf.files.pictures import IMAGE_SUFFIXES, to_bytes
from dofnerf.studio.lens_config import FocusConfig, LensConfig, depth_in_words, largest_blur
from dofnerf.studio.rgbd import DepthConfig, read_rgbd

if TYPE_CHECKING:
    from dofnerf.studio.virtual_lens import VirtualLens

FPS = 0.1, 240.0
MOST_FRAMES = 10_000
SMALLEST_MP4 = 16  # pixels; encoders fail below it


@dataclass(frozen=True)
class OutputConfig:
    """What is written. Files are replaced only when the new ones are complete."""

    out: Annotated[
        Path | None,
        tyro.conf.arg(
            help_behavior_hint="(default: IMAGE-refocused.png or .exr beside IMAGE; none if there is a --sweep)"
        ),
    ] = None
    """The refocused picture: .png, .jpg, .exr (linear light) and others."""
    sweep: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """A rack focus through the depths of the picture, as .gif (near, far and back, in a loop) or .mp4 (near to far)."""
    frames: int = 48
    """Frames of the sweep, 2 to 10000."""
    fps: float = 24.0
    """Frames a second of the sweep, 0.1 to 240; a GIF rounds the time of a frame to 1/100 s."""

    def check(self, inputs: Iterable[Path]) -> None:
        """Refuse what could not be written, and what would overwrite an input."""
        if not 2 <= self.frames <= MOST_FRAMES:
            raise ValueError(f"--frames must be 2 to {MOST_FRAMES}, found {self.frames}")
        if not FPS[0] <= self.fps <= FPS[1]:  # NaN too
            raise ValueError(f"--fps must be {FPS[0]:g} to {FPS[1]:g}, found {self.fps:g}")
        if self.out is not None:
            check_file("--out", self.out, IMAGE_SUFFIXES)
            if self.out.resolve() in [path.resolve() for path in inputs]:
                raise ValueError(f"--out {self.out}: would overwrite the input")
        if self.sweep is not None:
            check_file("--sweep", self.sweep, (".gif", ".mp4"))


@dataclass(frozen=True)
class RefocusConfig:
    """Put a lens in front of a picture with a depth map.

    The depth map has one value per pixel of the picture: PNG (8 or 16 bits), TIFF, EXR or .npy. Scene units are
    whatever the depth is in; with --fstop, metres.

    For example:
      dofnerf refocus photo.jpg depth.png --focus-at 320,200
      dofnerf refocus photo.jpg depth.png --fstop 1.8 --focal-length 50 --focus 2.5 --out sharp-at-2.5m.png
      dofnerf refocus photo.jpg disparity.npy --depth-kind disparity --aperture 20 --blades 6 --layers 8
      dofnerf refocus render.exr depth.exr --focus inf --out far.exr --sweep rack.mp4 --frames 96
    """

    image: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="IMAGE")]
    """The picture, sharp all over: PNG, JPEG, TIFF, WebP, or EXR (linear light)."""
    depth: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DEPTH")]
    """Its depth or disparity map, of the same size."""
    depth_map: DepthConfig = field(default_factory=DepthConfig)
    lens: LensConfig = field(default_factory=LensConfig)
    focus: FocusConfig = field(default_factory=FocusConfig)
    output: OutputConfig = field(default_factory=OutputConfig)


def run(config: RefocusConfig) -> list[Path]:
    """Refocus as the config says, telling on the way; returns the files that were written."""
    out, sweep = config.output.out, config.output.sweep
    if out is None and sweep is None:
        out = config.image.with_name(f"{config.image.stem}-refocused{'.exr' if is_linear(config.image) else '.png'}")
    config.lens.check()
    config.focus.check()
    OutputConfig(out, sweep, config.output.frames, config.output.fps).check([config.image, config.depth])
    picture = read_rgbd(config.image, config.depth, config.depth_map)
    focus, where = config.focus.disparity(picture)
    height, width = picture.disparity.shape
    if sweep is not None and sweep.suffix.lower() == ".mp4" and min(height, width) < SMALLEST_MP4:
        raise ValueError(f"--sweep {sweep}: a picture of {width} × {height} pixels is too small for MP4; use .gif")
    far, near = picture.disparity_range()
    focuses = ([focus] if out is not None else []) + ([far, near] if sweep is not None else [])
    aperture, why = config.lens.resolve(picture, focuses)
    largest = largest_blur(picture, aperture, focuses)

    farthest, nearest = (depth_in_words(disparity) for disparity in picture.disparity_range(tail=0))
    print(f"picture  {config.image}, {width} × {height}; depth {nearest} to {farthest}")
    words = f"aperture {aperture:.4g} px × scene units (the paper's K = {2 * aperture:.4g}), {why}"
    print(f"lens     {words}; {config.lens.describe_blur()}")
    if out is not None:
        print(f"focus    {depth_in_words(focus)} ({where})")
    if sweep is not None:
        ends = f"{depth_in_words(near)} to {depth_in_words(far)}"
        print(f"sweep    focus {ends}, {config.output.frames} frames at {config.output.fps:g} a second")
    print(f"blur     up to {largest:.3g} px in radius", flush=True)

    from dofnerf.studio.virtual_lens import VirtualLens

    lens = VirtualLens(picture, config.lens.aperture_shape(), config.lens.light, config.lens.layers, config.lens.norm)
    with ExitStack() as together:  # the picture takes its place only when the sweep is whole as well
        if out is not None:
            kept_back = together.enter_context(atomic(out))
            write_image(kept_back, lens.shown(lens.photograph(aperture, focus), is_linear(out)))
        if sweep is not None:
            focuses = sweep_focuses(far, near, config.output.frames, loop=sweep.suffix.lower() == ".gif")
            write_video(sweep, rack_focus(lens, aperture, focuses), config.output.fps)
    written = [path for path in (out, sweep) if path is not None]
    for path in written:
        print(f"wrote    {path}")
    return written


def sweep_focuses(far: float, near: float, frames: int, loop: bool) -> list[float]:
    """Focus disparities from near to far, easing in and out; a loop also comes back, and its last frame leads to its
    first."""
    step = np.arange(frames)
    phase = np.minimum(step, frames - step) * (2 * np.pi / frames) if loop else step * (np.pi / (frames - 1))
    return [float(near + (far - near) * share) for share in (1 - np.cos(phase)) / 2]


def rack_focus(lens: VirtualLens, aperture: float, focuses: list[float]) -> Iterator[np.ndarray]:
    """Frames (H, W, 3) uint8, one a focus disparity, with a progress bar on a terminal. A way back costs nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("sweep   "), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    wanted = Counter(focuses)
    kept: dict[float, np.ndarray] = {}
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        for focus in progress.track(focuses):
            frame = kept[focus] if focus in kept else to_bytes(lens.shown(lens.photograph(aperture, focus)))
            if wanted[focus] > 1:
                kept[focus] = frame
            yield frame
