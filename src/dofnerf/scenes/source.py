"""Where a picture comes from: small frozen objects that load on demand and stack.

`PictureFile` reads, `Undistorted` straightens (see distortion.py), `Resized` changes size; a light field's synthetic
lens (lightfield.py) is one more. A photo is (H, W, 3) float32 display values; a depth map is (H, W) float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from dofnerf.files import is_linear, read_image, read_map

# Light adds up, so sizes change in linear light.
GAMMA = 2.2
_LIGHT = (np.arange(256, dtype=np.float32) / 255) ** np.float32(GAMMA)  # of a byte


class Source(Protocol):
    """Anything that can say what it is and load a picture; equal sources load the same."""

    @property
    def label(self) -> str: ...

    def __hash__(self) -> int: ...

    def load(self) -> np.ndarray: ...


@dataclass(frozen=True)
class PictureFile:
    """A photo on disk of the given size; transparent pixels show white, EXR's linear light becomes display values."""

    path: Path
    width: int
    height: int

    @property
    def label(self) -> str:
        return str(self.path)

    def load(self) -> np.ndarray:
        image = read_image(self.path)
        if is_linear(self.path):
            image = np.clip(image, 0, 1) ** np.float32(1 / GAMMA)
        else:
            with Image.open(self.path) as picture:
                if picture.mode in ("RGBA", "LA"):
                    alpha = np.asarray(picture.getchannel("A"), dtype=np.float32)[..., None] / 255
                    image = image * alpha + (1 - alpha)
        _expect(self, image)
        return image


@dataclass(frozen=True)
class DepthFile:
    """A depth map along the optical axis; values of integer files are multiplied by `unit` to give scene units."""

    path: Path
    width: int
    height: int
    unit: float = 1e-3

    @property
    def label(self) -> str:
        return str(self.path)

    def load(self) -> np.ndarray:
        depth, full_scale = read_map(self.path)
        _expect(self, depth)
        return depth * np.float32(self.unit) if full_scale > 1 else depth


@dataclass(frozen=True)
class Resized:
    """A picture at another size: photos filtered in linear light, depth maps by the nearest pixel."""

    source: Source
    width: int
    height: int

    @property
    def label(self) -> str:
        return self.source.label

    def load(self) -> np.ndarray:
        return resize(self.source.load(), self.width, self.height)


def resize(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """Photo (H, W, 3), floats or bytes, by an antialiased Lanczos filter in linear light; map (H, W) by the nearest
    pixel."""
    if image.shape[:2] == (height, width):
        return image if image.dtype != np.uint8 else image.astype(np.float32) / 255
    if image.ndim == 2:
        return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.NEAREST))
    bands = []
    for c in range(image.shape[2]):
        band = image[..., c]
        light = Image.fromarray(_LIGHT[band] if band.dtype == np.uint8 else band ** np.float32(GAMMA))
        bands.append(np.asarray(light.resize((width, height), Image.Resampling.LANCZOS)))
    return np.clip(np.stack(bands, axis=-1), 0, 1) ** np.float32(1 / GAMMA)


def _expect(source: PictureFile | DepthFile, image: np.ndarray) -> None:
    height, width = image.shape[:2]
    if (width, height) != (source.width, source.height):
        raise ValueError(
            f"{source.path}: {width}×{height} pixels, expected {source.width}×{source.height}; a view's pictures have one size"
        )
