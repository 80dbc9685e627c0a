"""Which photos share a camera: those whose EXIF names the same body, lens and focal length, and that have one size.

Photos without EXIF of one size count as taken by one camera: a model with few unknowns survives blur better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dofnerf.capture.photos import Photo

_GUESS = 1.2  # focal length as a share of the longer side, where nobody knows


@dataclass(frozen=True)
class Group:
    """Photos (by name) of one camera; `focal` is its first guess in pixels at `size`, `known` whether EXIF gave it."""

    names: tuple[str, ...]
    size: tuple[int, int]
    focal: float
    known: bool

    def plain(self) -> dict[str, Any]:
        """For the child process: COLMAP's SIMPLE_RADIAL has focal length, principal point and one distortion."""
        width, height = self.size
        params = [self.focal, width / 2, height / 2, 0.0]
        return {"names": list(self.names), "width": width, "height": height, "params": params, "known": self.known}


def group_photos(photos: list[Photo], enlarge: float) -> list[Group]:
    """Groups in the order of their first photo; sizes are those of the copies, times `enlarge`."""
    members: dict[tuple[Any, ...], list[Photo]] = {}
    for photo in photos:
        exif = photo.exif
        key = (exif.camera, exif.lens, exif.focal_length, exif.focal_length_35, photo.size)
        members.setdefault(key, []).append(photo)
    groups = []
    for own in members.values():
        width, height = (round(side * enlarge) for side in own[0].size)
        focal = own[0].exif.focal_pixels(width, height)
        guess = focal if focal is not None else _GUESS * max(width, height)
        groups.append(Group(tuple(photo.name for photo in own), (width, height), guess, focal is not None))
    return groups
