"""What training sees of a scene: the photos that train, their cameras, what EXIF says of them, and the sparse points.

Photos are numbered 0 … M − 1 here, in the order of `scene.train`; the lens is numbered alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.files import has_more_than_8_bits
from dofnerf.models.photo_stack import PhotoStack
from dofnerf.models.volume.rays import CameraStack, Space, choose_space, stack_cameras
from dofnerf.optics import aperture_from_f_number
from dofnerf.scenes import Scene

Sharing = Literal["none", "exif", "all"]
_REACH = 2  # pixels of the smaller picture that a cubic filter reaches on each side


@dataclass(frozen=True)
class Setting:
    """What a run is about: with the config and the shapes of a checkpoint's tensors, enough to make model and lens
    again.

    Per training photo: `photos` (names), `focal` in pixels, `f_numbers` where EXIF knows, `groups` of shared apertures.
    `brackets`, if there are any, numbers the photos' places: those of one number share a camera. `focal_mm`, if EXIF
    knows any, are focal lengths in millimetres; `metres` is the length of a scene unit, where the scene says it.

    `disparities` are those of the far and the near end of the scene's depth; `apertures` and `focuses` (as disparities)
    are where EXIF lets photos start. `positions` are the cameras' centres; `exposures`, by EXIF, are relative amounts
    of light, empty if a photo does not say. `deep`: photos have more than 8 bits; `linear`: they are linear light (EXR,
    HDR).
    """

    scene: str
    size: tuple[int, int]
    photos: tuple[str, ...]
    focal: tuple[float, ...]
    f_numbers: tuple[float | None, ...]
    groups: tuple[int, ...]
    disparities: tuple[float, float]
    space: Space
    apertures: tuple[float | None, ...] = ()
    focuses: tuple[float | None, ...] = ()
    brackets: tuple[int, ...] = ()
    positions: tuple[tuple[float, float, float], ...] = ()
    exposures: tuple[float, ...] = ()
    focal_mm: tuple[float | None, ...] = ()
    metres: float | None = None
    deep: bool = False
    linear: bool = False

    @classmethod
    def of(cls, scene: Scene, sharing: Sharing = "none", space: str = "auto") -> Setting:
        """That of a scene; `sharing` says which photos share one aperture."""
        count = len(scene.train)
        cameras = [scene.camera(i) for i in scene.train]
        return cls(
            scene=scene.name,
            size=scene.size,
            photos=tuple(scene.frames[i].name for i in scene.train),
            focal=tuple(float(camera.fx) for camera in cameras),
            f_numbers=tuple(f_numbers(scene)),
            groups=tuple(aperture_groups(scene, sharing) or range(count)),
            disparities=(1 / scene.far, 1 / scene.near),
            space=choose_space(cameras, scene.near, scene.far, space),  # type: ignore[arg-type]
            apertures=tuple(exif_apertures(scene)),
            focuses=tuple(exif_focuses(scene)),
            brackets=tuple(shared_cameras(scene)),
            positions=tuple((float(x), float(y), float(z)) for x, y, z in (camera.position for camera in cameras)),
            exposures=exif_exposures(scene),
            focal_mm=tuple(focal_lengths(scene)),
            metres=scene.metres,
            deep=has_more_than_8_bits(scene.frames[scene.train[0]].photo.label),
            linear=scene.linear,
        )


@dataclass(frozen=True)
class SparsePoints:
    """P sightings: `photo` (P,), `pixels` (P, 2) as (column, row), `depth` (P,), `error` (P,) in pixels."""

    photo: Tensor
    pixels: Tensor
    depth: Tensor
    error: Tensor


@dataclass(frozen=True)
class TrainingData:
    """`photos` (M, H, W, 3), `cameras` as given and as tensors, `numbers` (M,) of all photos, and `points`. `masks` (M,
    H, W), if there are any, are 1 where a photo counts and 0 where it does not. `copies` are smaller photos (h, w, 3),
    bytes, if photos are large."""

    names: tuple[str, ...]
    photos: PhotoStack
    cameras: tuple[Camera, ...]
    stack: CameraStack
    numbers: Tensor
    points: SparsePoints
    masks: PhotoStack | None = None
    copies: tuple[np.ndarray, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """(height, width)."""
        return self.photos.size

    def mask(self, photo: int) -> Tensor | None:
        """What counts of a photo, (H, W) of 0 and 1; None if all does."""
        return None if self.masks is None else self.masks[photo]

    def at_least(self, photo: int, width: int, height: int) -> Tensor:
        """A photo (h, w, 3), or its smaller copy if that is as large as this."""
        copy = self.copies[photo] if self.copies else None
        if copy is None or copy.shape[0] < height or copy.shape[1] < width:
            return self.photos[photo]
        return torch.from_numpy(copy).to(self.photos.device).float() / 255

    def shrunk(self, photo: int, width: int, height: int) -> Tensor:
        """A photo at a smaller size, (height, width, 3)."""
        return shrunk(self.at_least(photo, width, height), width, height)


def training_data(scene: Scene, photos: str, device: torch.device, folder: Path | None = None) -> TrainingData:
    """Load them all; `photos` is "given" or "sharp". Where they are too many for memory, a file in `folder` holds
    them."""
    copies: dict[int, np.ndarray | None] = {}

    def picture(number: int) -> np.ndarray:
        i = scene.train[number]
        source = scene.frames[i].photo if photos == "given" else scene.frames[i].sharp
        if source is None:
            raise ValueError(f"{scene.name}: view {i} ({scene.frames[i].name}) has no all-in-focus photo to train on")
        found = scene.compact(i, source)
        copies[number] = scene.smaller_copy(i, source)
        return found

    def mask(number: int) -> np.ndarray:
        found = scene.mask(scene.train[number])
        return np.ones(scene.size[::-1], bool) if found is None else found

    masked = any(scene.mask(i) is not None for i in scene.train)
    cameras = tuple(scene.camera(i) for i in scene.train)
    stack = PhotoStack.of(picture, len(cameras), device, folder)
    return TrainingData(
        tuple(scene.frames[i].name for i in scene.train),
        stack,
        cameras,
        stack_cameras(cameras, device),
        torch.arange(len(cameras), device=device),
        sparse_points(scene, device),
        PhotoStack.of(mask, len(cameras), device, folder) if masked else None,
        tuple(copy for _, copy in sorted(copies.items()) if copy is not None),
    )


def sparse_points(scene: Scene, device: torch.device) -> SparsePoints:
    """What training photos see of the scene's points."""
    seen = [scene.visible(i) for i in scene.train]
    number = np.repeat(np.arange(len(seen)), [len(s.depth) for s in seen])

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).to(device)

    return SparsePoints(
        torch.from_numpy(number).to(device),
        tensor(np.concatenate([s.pixels for s in seen])),
        tensor(np.concatenate([s.depth for s in seen])),
        tensor(np.concatenate([s.error for s in seen])),
    )


def f_numbers(scene: Scene) -> list[float | None]:
    """The f-number of each training photo by EXIF, where known."""
    return [scene.exif(i).f_number for i in scene.train]


def focal_lengths(scene: Scene) -> list[float | None]:
    """The focal length of each training photo in millimetres by EXIF, where known; empty if nobody knows."""
    found = [scene.exif(i).focal_length for i in scene.train]
    return found if any(found) else []


def exif_apertures(scene: Scene) -> list[float | None]:
    """Each training photo's aperture in pixels × scene units by EXIF, where that and the length of a scene unit are
    known."""
    found: list[float | None] = []
    for i in scene.train:
        told = scene.exif(i)
        if scene.metres is None or told.f_number is None or told.focal_length is None:
            found.append(None)
        else:
            unit = 1000 * scene.metres
            found.append(aperture_from_f_number(told.f_number, told.focal_length, scene.camera(i).fx, unit))
    return found


def exif_focuses(scene: Scene) -> list[float | None]:
    """The disparity at which each training photo was focused, by EXIF's distance of the subject; empty if nobody
    knows."""
    known = [scene.exif(i).subject_distance for i in scene.train]
    if scene.metres is None or not any(known):
        return []
    return [None if distance is None else scene.metres / distance for distance in known]


def shared_cameras(scene: Scene) -> list[int]:
    """For each training photo the number of its place, counted from 0; photos of a focus bracket have one place. Empty
    without brackets."""
    first = {i: views[0] for views in scene.brackets().values() for i in views}
    if not any(i in first for i in scene.train):
        return []
    places = [first.get(i, i) for i in scene.train]
    return [sorted(set(places)).index(place) for place in places]


def exif_exposures(scene: Scene) -> tuple[float, ...]:
    """Each training photo's exposure by EXIF, time · ISO / f-number², in no particular unit; empty if one is
    unknown."""
    values = [scene.exif(i).exposure for i in scene.train]
    return tuple(value for value in values if value is not None) if all(values) else ()


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


def shrunk(picture: Tensor, width: int, height: int) -> Tensor:
    """(H, W, C) at a smaller size: means over blocks where a whole number of pixels makes one, else by a cubic filter.
    (torch's "area" takes means over windows that overlap: from 252 to 242 pixels, half of the fine detail is lost.)"""
    whole = picture.shape[0] % height == 0 and picture.shape[1] % width == 0
    wanted: dict[str, Any] = {"mode": "area"} if whole else {"mode": "bicubic", "antialias": True}
    small = torch.nn.functional.interpolate(picture.permute(2, 0, 1)[None], (height, width), **wanted)
    return small[0].permute(1, 2, 0)


def shrunk_mask(mask: Tensor, width: int, height: int) -> Tensor:
    """(H, W) of 0 and 1 at a smaller size: 1 where all pixels count that `shrunk` takes into one."""
    nothing = torch.nn.functional.interpolate(1 - mask[None, None], (height, width), mode="area")
    reach = 0 if mask.shape[0] % height == 0 and mask.shape[1] % width == 0 else _REACH
    return (torch.nn.functional.max_pool2d(nothing, 2 * reach + 1, 1, reach)[0, 0] < 1e-4).to(mask)
