"""From a format's views to a scene: which photo of a view trains, which views are held out, at what size, how deep.

The paper trains on a mix of photos focused near (even views) and far (odd views), the same mix for every method, and
tests on every ninth view against the all-in-focus photo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files.guard import bounds
from dofnerf.optics.lens import PINHOLE
from dofnerf.scenes.masks import with_masks
from dofnerf.scenes.scene import Frame, Points, Scene
from dofnerf.scenes.source import Resized

Mix = Literal["auto", "photo", "near-far", "far-near", "random", "aperture", "near", "far", "sharp"]
Bounds = tuple[float, float]  # near and far depth
PACKAGED = "demo"  # in place of a path, which is always absolute: the scene that comes with the package


@dataclass(frozen=True)
class GridOptions:
    """How to read a light field; see docs/formats.md."""

    lens_views: float = 2.0
    """Radius of the synthetic lens, in views."""
    disparities: tuple[float, float] | None = None
    """Pixels by which the nearest and the farthest point move per step of the grid (None: as manifest.json says)."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read a scene. The defaults are the paper's protocol at the size of the photos found."""

    downscale: int | None = None
    """Shrink to 1/downscale of the full size that the poses are given for; uses images_N if it is there."""
    width: int | None = None
    """Shrink to this many pixels across, instead of --downscale."""
    mix: Mix = "auto"
    """Which photo of each view trains. near-far: even views near, odd far; random: half and half; aperture: even views
    shallow, odd sharp; photo: the one that the file names; auto: near-far where both exist, else photo."""
    which_frames: tuple[int, ...] | None = None
    """Keep only these views (indices in the order read)."""
    hold_out: tuple[int, ...] | None = None
    """Hold out exactly these views (indices after which_frames)."""
    hold_every: int | None = None
    """Hold out every n-th view, 0 for none. None: as the files say, else every 9th."""
    hold_first: int = 4
    """The first view held out by hold_every."""
    seed: int = 0
    """Seed of the random numbers of training, and of --mix random."""
    save_resized: bool = False
    """Keep downscaled photos as images_N in the scene's folder. Otherwise nothing is ever written there."""
    grid: GridOptions = field(default_factory=GridOptions)


@dataclass(frozen=True)
class Origin:
    """Where a scene was read: the absolute `path` of its folder or file (or PACKAGED), its format, and the options."""

    path: str
    format: str = "auto"
    options: ReadOptions = field(default_factory=ReadOptions)


@dataclass(frozen=True)
class Found:
    """What a format found: views at the size of their files, in order, and whatever the files say beyond them.

    `bounds` is the scene's depth range, by default that of all frames together; `full_width` the width in pixels for
    which the poses are given, which `downscale` divides, by default that of the first frame; `from_linear` says that
    the photos were made from linear light, though their files do not show it.
    """

    name: str
    format: str
    frames: Sequence[Frame]
    bounds: Bounds | None = None
    full_width: int | None = None
    points: Points | None = None
    test_names: frozenset[str] | None = None
    notes: tuple[str, ...] = ()
    metres: float | None = None
    range_from: Literal["file", "points", "cameras"] = "file"
    from_linear: bool = False


def assemble(found: Found, options: ReadOptions) -> Scene:
    """Choose views, photos, split and size."""
    if not found.frames:
        raise ValueError(f"{found.name}: the scene has no photos")
    frames = list(found.frames)
    near, far = bounds(*(found.bounds or common_bounds(frames, found.name)), found.name)
    full_width = found.full_width or frames[0].camera.width
    if options.which_frames is not None:
        frames = [frames[i] for i in _indices(options.which_frames, len(frames), f"{found.name}: which_frames")]
    frames = _one_size(_mixed(with_masks(frames), options), full_width, options)
    test = _held_out(found, frames, options)
    train = tuple(i for i in range(len(frames)) if i not in set(test))
    if not train:
        raise ValueError(f"{found.name}: all {len(frames)} views are held out, none is left to train on")
    beside = found.points, found.notes, found.metres
    about: dict[str, Any] = {"range_from": found.range_from, "from_linear": found.from_linear}
    return Scene(found.name, found.format, tuple(frames), near, far, train, test, *beside, **about)


def scaled(frame: Frame, width: int, height: int) -> Frame:
    """The same view at another size: pictures, camera, lenses and pixel errors."""
    camera = frame.camera
    if (camera.width, camera.height) == (width, height):
        return frame
    resized = partial(Resized, width=width, height=height)
    return frame.converted(camera.resized(width, height), resized, width / camera.width)


def _mixed(frames: list[Frame], options: ReadOptions) -> list[Frame]:
    coin = np.arange(len(frames)) % 2
    if options.mix == "random":
        coin = np.random.default_rng(options.seed).permutation(coin)
    both = all(frame.near is not None and frame.far is not None for frame in frames)
    patterns = {
        "near-far": ("near", "far"),
        "far-near": ("far", "near"),
        "random": ("near", "far"),
        "aperture": ("shallow", "sharp"),
        "auto": ("near", "far") if both else ("photo", "photo"),
    }
    pattern = patterns.get(options.mix, (options.mix, options.mix))
    return [_chosen(frame, pattern[coin[i]], i, options.mix) for i, frame in enumerate(frames)]


def _chosen(frame: Frame, which: str, i: int, mix: str) -> Frame:
    if which == "shallow":
        which = "near" if frame.near is not None else "far" if frame.far is not None else "photo"
    if which == "photo":
        return frame
    source = {"near": frame.near, "far": frame.far, "sharp": frame.sharp}.get(which)
    if source is None:
        raise ValueError(f"frame {i} ({frame.name}): no {which} photo, which the mix {mix!r} needs; use another mix")
    exact = frame.lens or frame.near_lens or frame.far_lens
    lens = {"near": frame.near_lens, "far": frame.far_lens, "sharp": PINHOLE if exact else None}[which]
    return replace(frame, photo=source, lens=lens)


def _one_size(frames: list[Frame], full_width: int, options: ReadOptions) -> list[Frame]:
    first = frames[0].camera
    width = first.width
    if options.width is not None:
        width = options.width
    elif options.downscale is not None:
        if options.downscale < 1:
            raise ValueError(f"downscale must be 1 or more, found {options.downscale}")
        width = round(full_width / options.downscale)
    height = round(first.height * width / first.width)
    if width < 1 or height < 1:
        raise ValueError(f"photos of {width}×{height} pixels are too small; use a smaller downscale or a larger width")
    if width > first.width:
        raise ValueError(
            f"{frames[0].name}: the photos found are {first.width} pixels wide and are not enlarged to {width}; "
            "add larger photos or ask for a smaller size"
        )
    asked = options.width is not None or options.downscale is not None
    for i, frame in enumerate(frames):
        own = frame.camera
        fits = abs(own.height * width / own.width - height) <= 1
        if not (fits if asked else (own.width, own.height) == (width, height)):
            raise ValueError(
                f"frame {i} ({frame.name}): {own.width}×{own.height} pixels where frame 0 ({frames[0].name}) has "
                f"{first.width}×{first.height}; all photos of a scene have one size"
                + ("" if asked else " (a common width makes them so if their shapes agree)")
            )
    return [scaled(frame, width, height) for frame in frames]


def _held_out(found: Found, frames: list[Frame], options: ReadOptions) -> tuple[int, ...]:
    if options.hold_out is not None:
        return tuple(sorted(set(_indices(options.hold_out, len(frames), f"{found.name}: hold_out"))))
    if options.hold_every is None and found.test_names is not None:
        return tuple(i for i, frame in enumerate(frames) if frame.name in found.test_names)
    every = 9 if options.hold_every is None else options.hold_every
    if every < 0 or every == 1 or options.hold_first < 0:
        raise ValueError(f"{found.name}: hold_every must be 0 or at least 2 and hold_first at least 0")
    if not every:
        return ()
    return every_place(frames, options.hold_first, every)


def every_place(frames: Sequence[Frame], first: int, every: int) -> tuple[int, ...]:
    """Every n-th view from the `first` on; photos of a bracket show one view, so it trains or tests as a whole."""
    places: dict[str | int, list[int]] = {}
    for i, frame in enumerate(frames):
        places.setdefault(i if frame.bracket is None else frame.bracket, []).append(i)
    return tuple(sorted(i for views in list(places.values())[first::every] for i in views))


def _indices(wanted: Sequence[int], count: int, where: str) -> Sequence[int]:
    for i in wanted:
        if not 0 <= i < count:
            raise ValueError(f"{where}: there is no view {i}; the scene has {count}, numbered from 0")
    return wanted


def depth_range(depth: np.ndarray) -> Bounds | None:
    """All but the outermost 0.1 % of the depths in front of the camera, as LLFF does."""
    depth = depth[depth > 0]
    if len(depth) < 2:
        return None
    near, far = np.percentile(depth, [0.1, 99.9])
    return (float(near), float(far)) if 0 < near < far else None


def common_bounds(frames: Sequence[Frame], where: str) -> Bounds:
    """The depth range that spans those of all frames."""
    ranges = [frame.bounds for frame in frames if frame.bounds]
    if not ranges:
        raise ValueError(f"{where}: no photo sees any 3D point, so the depth range is unknown")
    return min(near for near, _ in ranges), max(far for _, far in ranges)


def with_bounds(frames: list[Frame], points: Points | None, where: str) -> list[Frame]:
    """The frames with depth ranges: as given, or of the points that they see."""
    result = []
    total = 0 if points is None else len(points)
    for i, frame in enumerate(frames):
        seen = frame.seen
        if seen is not None and len(seen) and not 0 <= seen.min() <= seen.max() < total:
            raise ValueError(f"{where}: frame {i} ({frame.name}): a visible point's number is not below {total}")
        bounds = frame.bounds
        if bounds is None and points is not None:
            pixels, depth = frame.camera.project(points.xyz if seen is None else points.xyz[seen])
            bounds = depth_range(depth[frame.camera.contains(pixels)])
        result.append(replace(frame, bounds=bounds))
    return result


def guess_bounds(cameras: list[Camera]) -> Bounds:
    """Half to one and a half times the distance to the point closest to all optical axes, as Blender scenes have it."""
    axes, places = np.stack([c.forward for c in cameras]), np.stack([c.position for c in cameras])
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    target = np.linalg.lstsq(across.sum(0), (across @ places[..., None])[..., 0].sum(0), rcond=1e-6)[0]
    depth = ((target - places) * axes).sum(axis=1)
    if depth.min() > 0:
        return 0.5 * float(depth.min()), 1.5 * float(depth.max())
    spread = float(np.linalg.norm(places - places.mean(0), axis=1).max()) or 1.0
    return spread, 100 * spread
