"""Which folder of a scene holds its photos: images, images_2, images_4, images_8 …"""

from __future__ import annotations

import re
from pathlib import Path

from dofnerf.files import image_size, write_image
from dofnerf.files.guard import inside
from dofnerf.files.pictures import READ_SUFFIXES
from dofnerf.scenes.source import PictureFile, resize

FULL_SIZE = ("images", "photos", "input", "rgb")


def photo_folder(root: Path, downscale: int | None) -> Path:
    """The folder of exactly this downscale if it is there, else full-size photos; None: images, or the next best."""
    shrunk = {int(match[1]): path for path in root.iterdir() if (match := re.fullmatch(r"images_(\d{1,4})", path.name))}
    full = [root / name for name in FULL_SIZE]
    sizes = [shrunk[n] for n in sorted(shrunk)]
    if downscale is None:
        order = [full[0], *sizes, *full[1:]]
    else:
        order = [*([shrunk[downscale]] if downscale in shrunk else []), *full, *sizes]
    for folder in order:
        if folder.is_dir() and any(folder.iterdir()):
            inside(root, folder.name, str(root))
            return folder
    raise ValueError(f"{root}: no photos; expected a folder images, images_2, images_4, images_8 or photos")


def pictures_in(root: Path, folder: Path) -> list[Path]:
    """The pictures of one folder of the scene, by sorted name, links followed."""
    shown = (p.name for p in folder.iterdir() if p.suffix.lower() in READ_SUFFIXES and not p.name.startswith("."))
    place = inside(root, str(folder.resolve()), str(folder)).relative_to(root.resolve())
    return [inside(root, str(place / name), str(folder / name)) for name in sorted(shown)]


def list_photos(root: Path, folder: Path, count: int, poses: Path) -> list[Path]:
    """The pictures of a folder in sorted order, as many as there are poses."""
    photos = pictures_in(root, folder)
    if len(photos) != count:
        more = "extra" if len(photos) > count else "missing"
        raise ValueError(
            f"{poses}: {count} poses but {len(photos)} photos in {folder} ({abs(len(photos) - count)} {more}); "
            "they must match one to one, in sorted order of the file names"
        )
    return photos


def saved_smaller(root: Path, photos: list[Path], full_width: int, downscale: int) -> list[Path]:
    """Write missing downscaled photos to images_N beside the originals, and return those."""
    folder = root / f"images_{downscale}"
    targets = [inside(root, f"{folder.name}/{photo.stem}.png", str(folder)) for photo in photos]
    if len(set(targets)) < len(targets):
        raise ValueError(f"{root}: two photos share one name, so smaller copies cannot be kept; omit save_resized")
    for photo, target in zip(photos, targets, strict=True):
        if photo.parent == folder.resolve():
            return photos
        if not target.exists():
            width, height = image_size(photo)
            smaller = round(full_width / downscale)
            image = PictureFile(photo, width, height).load()
            write_image(target, resize(image, smaller, max(1, round(height * smaller / width))))
    return targets


def picture_at(path: Path, full_size: tuple[int, int], where: str) -> PictureFile:
    """A photo whose shape must be that of the size (width, height) which its camera is given for."""
    width, height = image_size(path)
    full_width, full_height = full_size
    if width < 1 or abs(full_height * width / full_width - height) > max(1.5, 0.01 * height):
        own = f"{path} has {width}×{height} pixels"
        raise ValueError(f"{where}: {own}, another shape than the {full_width}×{full_height} of its camera")
    return PictureFile(path, width, height)
