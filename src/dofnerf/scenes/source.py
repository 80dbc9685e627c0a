"""Where a picture comes from: small frozen objects that load on demand and stack.

`PictureFile` and `DepthFile` read, `Undistorted` removes distortion (distortion.py), `Resized` and `Cropped` change the
size; masks.py and a light field's synthetic lens (formats/lightfield.py) have more. A photo is (H, W, 3) float32
display values; a depth map is (H, W) float32, a mask (H, W) bool.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
from PIL import Image

from dofnerf.files import is_linear, read_map
from dofnerf.files.pictures import open_picture, read_compact, to_floats


class Source(Protocol):
    """Anything that can say what it is and load a picture; equal sources load the same."""

    @property
    def label(self) -> str: ...

    def __hash__(self) -> int: ...

    def load(self) -> np.ndarray: ...


@dataclass(frozen=True)
class _File:
    path: Path
    width: int
    height: int

    @property
    def label(self) -> str:
        return str(self.path)

    def expect(self, image: np.ndarray) -> None:
        """Refuse a file whose size has changed."""
        height, width = image.shape[:2]
        if (width, height) != (self.width, self.height):
            expected = f"expected {self.width}×{self.height}; a view's pictures have one size"
            raise ValueError(f"{self.path}: {width}×{height} pixels, {expected}")


@dataclass(frozen=True)
class PictureFile(_File):
    """A photo on disk of the given size; transparent pixels show white, linear light (EXR, HDR, RAW) becomes display
    values."""

    def load(self) -> np.ndarray:
        return to_floats(self.load_compact())

    def load_compact(self) -> np.ndarray:
        """The same, but bytes where the file holds no more."""
        image = read_compact(self.path)
        if is_linear(self.path):
            image = to_display(np.clip(image, 0, 1))
        else:
            with open_picture(self.path, load=False) as picture:
                if picture.mode in ("RGBA", "LA"):
                    alpha = np.asarray(picture.getchannel("A"), dtype=np.float32)[..., None] / 255
                    image = to_floats(image) * alpha + (1 - alpha)
        self.expect(image)
        return image


@dataclass(frozen=True)
class DepthFile(_File):
    """A depth map along the optical axis; values of integer files are multiplied by `unit` to give scene units."""

    unit: float = 1e-3

    def load(self) -> np.ndarray:
        depth, full_scale = read_map(self.path)
        self.expect(depth)
        return depth * np.float32(self.unit) if full_scale > 1 else depth


@dataclass(frozen=True)
class Derived:
    """A picture made of another one."""

    source: Source
    as_taken: ClassVar[bool] = True  # what a camera wrote of the other one holds for this one

    @property
    def label(self) -> str:
        return self.source.label


@dataclass(frozen=True)
class Resized(Derived):
    """A picture at another size: photos filtered in linear light, depth maps by the nearest pixel, masks strictly."""

    width: int
    height: int

    def load(self) -> np.ndarray:
        return resize(compact(self.source), self.width, self.height)


@dataclass(frozen=True)
class Cropped(Derived):
    """The middle of a picture, (width, height) pixels."""

    width: int
    height: int

    def load(self) -> np.ndarray:
        image = self.source.load()
        top, left = (image.shape[0] - self.height) // 2, (image.shape[1] - self.width) // 2
        return np.ascontiguousarray(image[top : top + self.height, left : left + self.width])


def compact(source: Source) -> np.ndarray:
    """What a source loads, but bytes where a file holds no more: a quarter of the memory, and sooner shrunk."""
    return source.load_compact() if isinstance(source, PictureFile) else source.load()


def resize(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """Photo (H, W, 3), floats or bytes; map (H, W) by the nearest pixel. Of a mask (H, W) bool, only pixels count whose
    whole surroundings do.

    A photo shrinks by whole factors as means of linear light, as larger pixels of the sensor would have it. What is
    left, a factor below 2, is done by a Lanczos filter in display values: in linear light its rings beside something
    bright would be halos where it is dark."""
    if image.shape[:2] == (height, width):
        return image if image.dtype != np.uint8 else image.astype(np.float32) / 255
    if image.dtype == bool:
        touched = Image.fromarray((~image).astype(np.float32)).resize((width, height), Image.Resampling.BOX)
        return eroded(np.asarray(touched) <= 0, 1)
    if image.ndim == 2:
        return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.NEAREST))
    factors = max(1, image.shape[1] // width), max(1, image.shape[0] // height)
    box = 0.0, 0.0, image.shape[1] / factors[0], image.shape[0] / factors[1]
    bands = []
    for c in range(image.shape[2]):
        band = image[..., c]
        if factors != (1, 1):
            light = Image.fromarray(_light_of_bytes()[band] if band.dtype == np.uint8 else to_linear(band))
            band = to_display(np.asarray(light.reduce(factors)))
        band = band.astype(np.float32) / 255 if band.dtype == np.uint8 else band
        bands.append(np.asarray(Image.fromarray(band).resize((width, height), Image.Resampling.LANCZOS, box)))
    return np.clip(np.stack(bands, axis=-1), 0, 1)


def eroded(mask: np.ndarray, pixels: int) -> np.ndarray:
    """The pixels of a mask (H, W) with no other within so many pixels; beyond the rim all count."""
    from scipy.ndimage import binary_erosion

    return binary_erosion(mask, np.ones((3, 3), bool), pixels, border_value=1)


def to_linear(display: np.ndarray) -> np.ndarray:
    """Display values → linear light, by optics' default curve without its toe, which only gradients need."""
    return display ** np.float32(_gamma())


def to_display(linear: np.ndarray) -> np.ndarray:
    """The inverse."""
    return linear ** np.float32(1 / _gamma())


@cache
def _light_of_bytes() -> np.ndarray:
    return to_linear(np.arange(256, dtype=np.float32) / 255)


def _gamma() -> float:
    from dofnerf.optics.light import GAMMA  # here: it imports torch, which `--help` does without

    return GAMMA


def is_as_taken(source: Source) -> bool:
    """Whether a photo comes from a camera's file, so that its EXIF holds: not if a synthetic lens or gain made it."""
    if isinstance(source, Derived):
        return source.as_taken and is_as_taken(source.source)
    return isinstance(source, PictureFile)
