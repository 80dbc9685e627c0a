"""A scene: photos, cameras, depth bounds and a split; where known, sharp photos, lenses, depth and sparse points.

Units. Lengths and depths are in the scene's own unit; `depth` is along the optical axis of that photo's camera. A
lens's `aperture` is in pixels × scene units, and scales with the size of the photo.
"""

from __future__ import annotations

import glob
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from PIL import Image

from dofnerf.camera import Camera
from dofnerf.files.pictures import to_bytes, to_floats
from dofnerf.files.ply import Points
from dofnerf.optics.lens import Lens
from dofnerf.scenes.exif import Exif, read_exif
from dofnerf.scenes.source import Source, compact, is_as_taken, resize

if TYPE_CHECKING:
    from dofnerf.scenes.reading import Origin

CACHE_BYTES = 1 << 30
_COPY = 620_000  # pixels at the least of the smaller copy of a large photo: a little more than triangulation asks for
_COPIES = 150_000_000  # pixels of all of them together, about


class Visible(NamedTuple):
    """The N sparse points that a photo sees: pixels (N, 2) as (column, row), depth (N,), error (N,) in pixels, ids
    (N,)."""

    pixels: np.ndarray
    depth: np.ndarray
    error: np.ndarray
    ids: np.ndarray


@dataclass(frozen=True)
class Frame:
    """One view. `photo` trains, taken with `lens`; `sharp`, `near`, `far` show the same view with other lenses.

    `bounds` is this view's depth range; `seen` (N,) are indices into the scene's points, `seen_error` (N,) their
    reprojection errors in pixels of this photo; `exif` is the photo's, where the scene's file has it. Views of one
    `bracket` (a name) were taken from one place and differ in focus: they share a pose. Where `mask` is not set,
    nothing counts; photos are filled in there (see `masks`).
    """

    name: str
    camera: Camera
    photo: Source
    lens: Lens | None = None
    sharp: Source | None = None
    near: Source | None = None
    far: Source | None = None
    near_lens: Lens | None = None
    far_lens: Lens | None = None
    depth: Source | None = None
    bounds: tuple[float, float] | None = None
    seen: np.ndarray | None = None
    seen_error: np.ndarray | None = None
    exif: Exif | None = None
    bracket: str | None = None
    mask: Source | None = None

    def converted(self, camera: Camera, picture: Callable[[Source], Source], ratio: float) -> Frame:
        """The view by a camera whose focal length in pixels is `ratio` times as long, of pictures changed
        accordingly."""
        changes: dict[str, Any] = {"camera": camera}
        for name in ("photo", "sharp", "near", "far", "depth", "mask"):
            if (source := getattr(self, name)) is not None:
                changes[name] = picture(source)
        for name in ("lens", "near_lens", "far_lens"):
            if (lens := getattr(self, name)) is not None:
                changes[name] = lens.scaled(ratio)
        if self.seen_error is not None:
            changes["seen_error"] = self.seen_error * ratio
        return replace(self, **changes)


@dataclass(frozen=True)
class Viewpoint:
    """A camera with a name; `lens` is the one to shoot with, where known, and `photo` the name of its photo, if any."""

    name: str
    camera: Camera
    lens: Lens | None = None
    held_out: bool = False
    photo: str = ""


@dataclass
class Scene:
    """Frames of one size with depth range `near` to `far`; `train` and `test` are indices into `frames`.

    `range_from` says where the depth range comes from: the "file", sparse "points", or a guess from the "cameras",
    which training replaces by a measurement. `metres` is the length of one scene unit, where known; `origin` is where
    it was read, if it was; `from_linear`: the photos were made from linear light, though their files do not show it.
    Pictures load on first use and stay in a bounded cache, as bytes where files hold no more: treat the arrays as
    read-only. Of photos of 2.5 megapixels or more a smaller copy stays, so that they need not be loaded again.
    """

    name: str
    format: str
    frames: tuple[Frame, ...]
    near: float
    far: float
    train: tuple[int, ...]
    test: tuple[int, ...]
    points: Points | None = None
    notes: tuple[str, ...] = ()
    metres: float | None = None
    origin: Origin | None = None
    range_from: Literal["file", "points", "cameras"] = "file"
    from_linear: bool = False
    _cache: OrderedDict[Source, np.ndarray] = field(default_factory=OrderedDict, repr=False, compare=False)
    _copies: dict[Source, np.ndarray] = field(default_factory=dict, repr=False, compare=False)
    _exif: dict[int, Exif] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of every photo."""
        camera = self.frames[0].camera
        return camera.width, camera.height

    @property
    def linear(self) -> bool:
        """Whether the photos are, or were made from, linear light (EXR, HDR)."""
        return self.from_linear or Path(self.frames[0].photo.label).suffix.lower() in (".exr", ".hdr")

    def camera(self, i: int) -> Camera:
        """The camera of photo i."""
        return self.frames[i].camera

    def photo(self, i: int) -> np.ndarray:
        """The photo to train on, (H, W, 3) float32."""
        return self.picture(i, self.frames[i].photo)

    def shrunk(self, i: int, width: int, height: int) -> np.ndarray:
        """That photo at a smaller size, (height, width, 3) float32."""
        source = self.frames[i].photo
        copy = self.smaller_copy(i, source)
        enough = copy is not None and copy.shape[0] >= height and copy.shape[1] >= width
        return to_floats(resize(copy if enough and copy is not None else self.compact(i, source), width, height))

    def smaller_copy(self, i: int, source: Source) -> np.ndarray | None:
        """Of a large photo of view i one of about a megapixel, (h, w, 3) bytes; None of smaller ones."""
        width, height = self.size
        factor = math.isqrt(width * height // max(1, min(_COPY, _COPIES // len(self.frames))))
        if factor < 2:
            return None
        if source not in self._copies:
            whole = Image.fromarray(to_bytes(self.compact(i, source)))
            small = whole.resize((round(width / factor), round(height / factor)), Image.Resampling.BOX)
            self._copies[source] = np.array(small)
        return self._copies[source]

    def lens(self, i: int) -> Lens | None:
        """The true lens of that photo, where known."""
        return self.frames[i].lens

    def sharp(self, i: int) -> np.ndarray | None:
        """The all-in-focus photo of view i, (H, W, 3) float32, where there is one."""
        source = self.frames[i].sharp
        return None if source is None else self.picture(i, source)

    def depth(self, i: int) -> np.ndarray | None:
        """True depth along the optical axis, (H, W) float32, where known."""
        source = self.frames[i].depth
        return None if source is None else self.picture(i, source)

    def mask(self, i: int) -> np.ndarray | None:
        """Which pixels of view i count, (H, W) bool; None if all do."""
        source = self.frames[i].mask
        mask = None if source is None else self.picture(i, source)
        return None if mask is None or mask.all() else mask

    def exif(self, i: int) -> Exif:
        """As the scene's file, the photo or, for a smaller copy, its original has it, the first that knows a value.
        Files are read once."""
        if i not in self._exif:
            told, path = self.frames[i].exif, Path(self.frames[i].photo.label)
            files = [path] if is_as_taken(self.frames[i].photo) else []
            if files and path.parent.name.startswith("images_"):
                files += sorted(path.parent.parent.glob(f"images/{glob.escape(path.stem)}.*"))
            plain = {} if told is None else told.plain()
            for file in files:
                plain = read_exif(file).plain() | plain
            self._exif[i] = Exif(**plain)  # type: ignore[arg-type]
        return self._exif[i]

    def brackets(self) -> dict[str, list[int]]:
        """The focus brackets: name → the views, two or more, that were taken from one place."""
        found: dict[str, list[int]] = {}
        for i, frame in enumerate(self.frames):
            if frame.bracket is not None:
                found.setdefault(frame.bracket, []).append(i)
        return {name: views for name, views in found.items() if len(views) > 1}

    def visible(self, i: int) -> Visible:
        """The sparse points that photo i sees, where they project inside it and count; none if that is unknown."""
        frame = self.frames[i]
        if self.points is None or frame.seen is None:
            return Visible(np.zeros((0, 2)), np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64))
        pixels, depth = frame.camera.project(self.points.xyz[frame.seen])
        error = self.points.error[frame.seen] if frame.seen_error is None else frame.seen_error
        keep = (depth > 0) & frame.camera.contains(pixels)
        if (mask := self.mask(i)) is not None:
            column, row = pixels[keep].astype(int).T
            keep[keep] = mask[row, column]
        return Visible(pixels[keep], depth[keep], error[keep], frame.seen[keep])

    def describe(self) -> str:
        """What this scene is, in one line."""
        width, height = self.size
        has = [f"{len(self.points)} points"] if self.points is not None else []
        for label in ("sharp", "near", "far", "depth"):
            count = sum(getattr(frame, label) is not None for frame in self.frames)
            has += [label if count == len(self) else f"{label} ({count})"] if count else []
        known = sum(frame.lens is not None for frame in self.frames)
        has += ["true lens" if known == len(self) else f"true lens ({known})"] if known else []
        return (
            f"{self.name}: {self.format}, {len(self)} photos of {width}×{height} "
            f"({len(self.train)} train, {len(self.test)} test), depth {self.near:.4g} to {self.far:.4g}, "
            f"with {', '.join(has) or 'photos only'}"
        )

    def _repr_html_(self) -> str:
        from dofnerf.scenes.overview import scene_html

        return scene_html(self)

    def picture(self, i: int, source: Source) -> np.ndarray:
        """A picture of view i, loaded now or before; errors name the frame."""
        return to_floats(self.compact(i, source))

    def compact(self, i: int, source: Source) -> np.ndarray:
        """The same, but bytes where a file holds no more."""
        if source in self._cache:
            self._cache.move_to_end(source)
            return self._cache[source]
        try:
            image = compact(source)
        except OSError as error:
            raise OSError(f"frame {i} ({self.frames[i].name}): {source.label}: {error.strerror or error}") from None
        except ValueError as error:
            raise ValueError(f"frame {i} ({self.frames[i].name}): {error}") from None
        self._cache[source] = image
        while sum(array.nbytes for array in self._cache.values()) > CACHE_BYTES and len(self._cache) > 1:
            self._cache.popitem(last=False)
        return image
