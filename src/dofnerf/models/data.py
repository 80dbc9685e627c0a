"""What training sees of a scene, as tensors: the photos that train, their cameras, and the sparse points that they see.

Photos are numbered 0 … M − 1 here, in the order of `scene.train`; the lens is numbered alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models.config import Sharing
from dofnerf.models.volume.rays import CameraStack, Rays, pixel_rays, stack_cameras
from dofnerf.optics import aperture_from_f_number
from dofnerf.scenes import Scene

_WHITE = 0.95  # of a photo: from there on it may have been cut off at 1, and compressed since


@dataclass(frozen=True)
class SparsePoints:
    """P sightings: `photo` (P,), `pixels` (P, 2) as (column, row), `depth` (P,), `error` (P,) in pixels."""

    photo: Tensor
    pixels: Tensor
    depth: Tensor
    error: Tensor


@dataclass(frozen=True)
class TrainingData:
    """`photos` (M, H, W, 3), `cameras` as given and as tensors, `numbers` (M,) of all photos, and `points`."""

    names: tuple[str, ...]
    photos: Tensor
    cameras: tuple[Camera, ...]
    stack: CameraStack
    numbers: Tensor
    points: SparsePoints

    @property
    def size(self) -> tuple[int, int]:
        """(height, width)."""
        return self.photos.shape[1], self.photos.shape[2]

    def rays(self, photo: Tensor, pixels: Tensor) -> Rays:
        """Rays (N,) through pixels (N, 2)."""
        return pixel_rays(self.stack, photo, pixels)


def training_data(scene: Scene, photos: str, device: torch.device) -> TrainingData:
    """Load them all; `photos` is "given" or "sharp"."""
    pictures = []
    for i in scene.train:
        picture = scene.photo(i) if photos == "given" else scene.sharp(i)
        if picture is None:
            raise ValueError(f"{scene.name}: view {i} ({scene.frames[i].name}) has no all-in-focus photo to train on")
        pictures.append(picture)
    cameras = tuple(scene.camera(i) for i in scene.train)
    seen = [scene.visible(i) for i in scene.train]
    number = np.repeat(np.arange(len(seen)), [len(s.depth) for s in seen])

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).to(device)

    points = SparsePoints(
        torch.from_numpy(number).to(device),
        tensor(np.concatenate([s.pixels for s in seen])),
        tensor(np.concatenate([s.depth for s in seen])),
        tensor(np.concatenate([s.error for s in seen])),
    )
    return TrainingData(
        tuple(scene.frames[i].name for i in scene.train),
        tensor(np.stack(pictures)),
        cameras,
        stack_cameras(cameras, device),
        torch.arange(len(cameras), device=device),
        points,
    )


def missed(shown: Tensor, photo: Tensor, whole: Tensor | None = None) -> Tensor:
    """shown − photo, but 0 where the photo cannot tell: its white says only "this bright or brighter". `whole` is what
    is shown in the end, where `shown` is a part of it."""
    brighter = (shown if whole is None else whole) > 1
    return torch.where((photo >= _WHITE) & brighter, 0.0, shown - photo)


def f_numbers(scene: Scene) -> list[float | None]:
    """The f-number of each training photo by EXIF, where known."""
    return [scene.f_number(i) for i in scene.train]


def exif_apertures(scene: Scene) -> list[float | None]:
    """Each training photo's aperture in pixels × scene units by EXIF, where that and the length of a scene unit are
    known."""
    found: list[float | None] = []
    for i in scene.train:
        told = scene.frames[i].exif
        if scene.metres is None or told is None or told.f_number is None or told.focal_length is None:
            found.append(None)
        else:
            unit = 1000 * scene.metres
            found.append(aperture_from_f_number(told.f_number, told.focal_length, scene.camera(i).fx, unit))
    return found


def exif_focuses(scene: Scene) -> list[float | None]:
    """The disparity at which each training photo was focused, by EXIF's distance of the subject; empty if nobody
    knows."""
    told = [scene.frames[i].exif for i in scene.train]
    known = [None if one is None else one.subject_distance for one in told]
    if scene.metres is None or not any(known):
        return []
    return [None if distance is None else scene.metres / distance for distance in known]


def aperture_groups(scene: Scene, sharing: Sharing) -> list[int] | None:
    """The number of each training photo's aperture group (LearnedLens's `groups`)."""
    if sharing == "none":
        return None
    if sharing == "all":
        return [0] * len(scene.train)
    known = f_numbers(scene)
    if not any(known):
        raise ValueError(f"{scene.name}: no photo names its f-number in EXIF; use --share-aperture none or all")
    # Photos that do not say keep an aperture of their own.
    keys = [f"f/{value:.3g}" if value else f"photo {i}" for i, value in enumerate(known)]
    order = sorted(set(keys))
    return [order.index(key) for key in keys]
