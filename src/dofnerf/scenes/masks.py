"""Masks: which pixels of a photo count. White or opaque counts, black or transparent does not.

A photo's mask is a file of its own (nerfstudio's `mask_path`; NAME.png or NAME.jpg.png in a folder masks, as COLMAP has
it), else its alpha channel. What does not count is filled in from around as soon as a photo is loaded, before it is
resized, so that nothing of it ever gets into pixels that count. A mask in memory is (H, W) bool.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from dofnerf.files import image_size, is_linear
from dofnerf.files.guard import inside
from dofnerf.files.pictures import IMAGE_SUFFIXES, has_exr_alpha, open_picture, read_exr_alpha
from dofnerf.scenes.source import Derived, PictureFile, Resized, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dofnerf.scenes.scene import Frame

FOLDER = "masks"
# Bytes from which a pixel counts, and alpha of EXR: a photo's half-transparent pixels show something else, too.
_WHITE, _OPAQUE, _COVERED = 128, 255, 0.999


@dataclass(frozen=True)
class MaskFile(PictureFile):
    """A mask on disk of the given size, or with `alpha` the alpha channel of a photo."""

    alpha: bool = False

    def load_compact(self) -> np.ndarray:
        if self.alpha and is_linear(self.path):
            alpha = read_exr_alpha(self.path)
            counts = np.ones((self.height, self.width), bool) if alpha is None else alpha >= _COVERED
            self.expect(counts)
            return counts
        with open_picture(self.path) as picture:
            if self.alpha:
                counts = np.asarray(picture.getchannel("A")) >= _OPAQUE
            else:
                deep = picture.mode.startswith(("I", "F"))
                grey = np.asarray(picture if deep else picture.convert("L"))
                counts = grey >= (_WHITE if grey.max(initial=0) <= 255 else 256 * _WHITE)
                if "A" in picture.getbands():
                    counts &= np.asarray(picture.getchannel("A")) >= _WHITE
        self.expect(counts)
        return counts


@dataclass(frozen=True)
class Masked(Derived):
    """A photo in which what its mask leaves out is filled in from around."""

    mask: Source

    def load(self) -> np.ndarray:
        return fill_in(self.source.load(), self.mask.load())


def given_mask(path: Path, size: tuple[int, int], where: str) -> Source:
    """The mask in a file, for a photo of `size` (width, height); of another size than the photo it is resized."""
    own = image_size(path)
    if abs(own[1] * size[0] / own[0] - size[1]) > max(1.5, 0.01 * size[1]):
        shapes = f"{own[0]}×{own[1]} pixels, another shape than its photo's {size[0]}×{size[1]}"
        raise ValueError(f"{where}: the mask {path} has {shapes}")
    mask = MaskFile(path, *own)
    return mask if own == size else Resized(mask, *size)


def alpha_mask(photo: Path, size: tuple[int, int]) -> Source | None:
    """The alpha channel of a photo, if it has one."""
    if is_linear(photo):
        has_one = photo.suffix.lower() == ".exr" and has_exr_alpha(photo)
        return MaskFile(photo, *size, alpha=True) if has_one else None
    with open_picture(photo, load=False) as picture:
        return MaskFile(photo, *size, alpha=True) if picture.mode in ("RGBA", "LA") else None


def find_mask(root: Path, name: str, photo: Path, size: tuple[int, int]) -> Source | None:
    """The mask of the photo called `name` (a path below the folder of photos): in masks beside them, else its alpha."""
    path = file_beside(root, name)
    return alpha_mask(photo, size) if path is None else given_mask(path, size, f"{root}: {name}")


def file_beside(root: Path, name: str) -> Path | None:
    """The file of the mask of the photo called `name` in the scene's folder masks, if there is one."""
    return mask_file(inside(root, FOLDER, str(root)), name) if (root / FOLDER).is_dir() else None


def mask_file(folder: Path, name: str) -> Path | None:
    """The file in a folder of masks for the photo called `name`: NAME.jpg.png, else NAME.png or the like."""
    stem = str(Path(name).with_suffix(""))
    for trial in dict.fromkeys([f"{name}.png", *(stem + suffix for suffix in IMAGE_SUFFIXES)]):
        path = inside(folder, trial, f"{folder}: mask of {name!r}"[:300])
        if path.is_file():
            return path
    return None


def with_masks(frames: Sequence[Frame]) -> list[Frame]:
    """The frames with what their masks leave out filled in, in all photos."""
    done = []
    for frame in frames:
        if frame.mask is not None:
            shown = {name: getattr(frame, name) for name in ("photo", "sharp", "near", "far")}
            frame = replace(frame, **{k: Masked(v, frame.mask) for k, v in shown.items() if v is not None})  # type: ignore[arg-type]
        done.append(frame)
    return done


def fill_in(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """A picture (H, W, 3) whose pixels outside `mask` (H, W) continue what is around, ever coarser further away.

    A pyramid of means over the pixels that count goes down until all have one; on the way back, each level fills what
    the finer one lacks.
    """
    if mask.all():
        return image
    if not mask.any():
        return np.full_like(image, 0.5)
    height, width = mask.shape
    even = np.pad(image * mask[..., None], ((0, height % 2), (0, width % 2), (0, 0)))
    count = np.pad(mask, ((0, height % 2), (0, width % 2))).astype(np.float32)
    light, share = (part[::2, ::2] + part[1::2, ::2] + part[::2, 1::2] + part[1::2, 1::2] for part in (even, count))
    coarse = fill_in(light / np.maximum(share, 1)[..., None], share > 0)
    size = coarse.shape[1::-1]
    bands = [Image.fromarray(np.ascontiguousarray(coarse[..., c])) for c in range(image.shape[2])]
    large = [np.asarray(band.resize((2 * size[0], 2 * size[1]), Image.Resampling.BILINEAR)) for band in bands]
    return np.where(mask[..., None], image, np.stack(large, axis=-1)[:height, :width])
