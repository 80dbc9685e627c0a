"""The DoF-NeRF authors' folders: poses_bounds.npy and three photos of every view, matched by sorted name.

images_8/f11      all in focus (small aperture)            → sharp
images_8/f4_obj   large aperture, focused on the object    → near
images_8/f4_bak   large aperture, focused on the background → far
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from dofnerf.files import image_size
from dofnerf.files.guard import inside
from dofnerf.scenes.formats.llff import POSES, found, frame_of, read_poses
from dofnerf.scenes.photos import list_photos
from dofnerf.scenes.reading import Found, ReadOptions
from dofnerf.scenes.source import PictureFile

SHARP, NEAR, FAR = "f11", "f4_obj", "f4_bak"
name, order = "triplets", 20  # before LLFF, whose table of poses it has, too


def detects(path: Path) -> bool:
    """Whether there is a table of poses, and a folder of one of the three kinds of photos."""
    return (path / POSES).is_file() and find_triplets(path) is not None


def find_triplets(root: Path, downscale: int | None = None) -> Path | None:
    """The folder that holds f11, f4_obj and f4_bak: images_N of this downscale if there, else the largest photos."""
    folders = {int(m[1] or 1): p for p in root.iterdir() if (m := re.fullmatch(r"images(?:_(\d{1,4}))?", p.name))}
    order = sorted(folders, key=lambda n: (n != downscale, n))
    return next((folders[n] for n in order if any((folders[n] / part).is_dir() for part in (SHARP, NEAR, FAR))), None)


def read(root: Path, options: ReadOptions) -> Found:
    """The scene in `root`."""
    folder = find_triplets(root, options.downscale)
    if folder is None:
        raise ValueError(f"{root}: no triplets; expected images_8/{SHARP}, images_8/{NEAR} and images_8/{FAR}")
    table = read_poses(root)
    parts = {}
    for part in (SHARP, NEAR, FAR):
        if not (folder / part).is_dir():
            raise ValueError(f"{folder}: the folder {part} is missing; a triplet has {SHARP}, {NEAR} and {FAR}")
        inside(root, f"{folder.name}/{part}", str(root))
        parts[part] = list_photos(root, folder / part, len(table), root / POSES)
    frames = []
    for i, path in enumerate(parts[SHARP]):
        frame = frame_of(root, table, i, path)
        near, far = (_same_size(parts[part][i], frame.camera.width, frame.camera.height, i) for part in (NEAR, FAR))
        frames.append(replace(frame, photo=near, sharp=frame.photo, near=near, far=far))
    return found(root, "DoF-NeRF triplets", frames, round(table[0, 9]))


def _same_size(path: Path, width: int, height: int, i: int) -> PictureFile:
    if image_size(path) != (width, height):
        own = "×".join(map(str, image_size(path)))
        raise ValueError(f"frame {i}: {path} has {own} pixels, its sharp photo {width}×{height}; expected one size")
    return PictureFile(path, width, height)
