"""Which files of a folder are photos or videos, and which cannot be used, by their names alone: nothing is opened
here."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dofnerf.files.pictures import PHOTO_SUFFIXES

VIDEOS = (".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm")
RAW = (
    ".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dcr", ".dng", ".erf", ".fff", ".iiq", ".kdc", ".mef", ".mos", ".mrw", ".nef",
    ".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f",
)  # fmt: skip
DEVELOP = "develop them to JPEG or TIFF first (the camera's software, darktable or RawTherapee do)"


@dataclass(frozen=True)
class Listing:
    """`photos` and `videos` in the order of their names and numbers, and `warnings` about files that cannot be used."""

    photos: tuple[Path, ...]
    videos: tuple[Path, ...]
    warnings: tuple[str, ...] = ()


def list_files(source: Path) -> Listing:
    """The photos and videos of a folder (not of folders within it), or the one video that `source` is."""
    if not source.exists():
        raise FileNotFoundError(f"{source}: there is no such folder or video")
    if source.is_file():
        return _single(source)
    files = sorted(
        (path for path in source.iterdir() if path.is_file() and not path.name.startswith(".")), key=_natural
    )
    photos = [path for path in files if path.suffix.lower() in PHOTO_SUFFIXES]
    taken = {path.stem.lower() for path in photos}
    films = [path for path in files if path.suffix.lower() in VIDEOS]
    videos = [
        path for path in films if path.stem.lower() not in taken
    ]  # a telephone's photo may come with a moment of film
    raw = [path for path in files if path.suffix.lower() in RAW]
    lonely = [path for path in raw if path.stem.lower() not in taken]
    if not photos and not videos:
        raise ValueError(_nothing(source, files, raw))
    words = [f"{len(lonely)} RAW files are left out, such as {lonely[0].name}; {DEVELOP}"] if lonely else []
    if len(videos) < len(films):
        words.append(f"{len(films) - len(videos)} videos are left out, because there are photos of the same names")
    return Listing(tuple(photos), tuple(videos), tuple(words))


def _natural(path: Path) -> list[tuple[int, str]]:
    """IMG_2 before IMG_10: by the numbers in a name, which is the order in which photos were taken."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", path.name)]


def _single(source: Path) -> Listing:
    suffix = source.suffix.lower()
    if suffix in VIDEOS:
        return Listing((), (source,))
    if suffix in RAW:
        raise ValueError(f"{source}: a RAW file; {DEVELOP}, and give the folder of all photos")
    if suffix in PHOTO_SUFFIXES:
        raise ValueError(f"{source}: one photo is not enough; give the folder that holds all photos of the scene")
    raise ValueError(f"{source}: neither a folder of photos nor a video ({' '.join(VIDEOS)})")


def _nothing(source: Path, files: list[Path], raw: list[Path]) -> str:
    if raw:
        return f"{source}: only RAW files ({len(raw)}, such as {raw[0].name}), which are not read; {DEVELOP}"
    if not files:
        below = sum(path.is_dir() for path in source.iterdir())
        return f"{source}: the folder is empty" + (
            f" but for {below} folders; give the one that holds the photos" if below else ""
        )
    kinds = ", ".join(
        f"{count} {kind or 'without suffix'}" for kind, count in Counter(p.suffix for p in files).most_common(3)
    )
    return f"{source}: no photos ({kinds}); JPEG, PNG, TIFF and HEIC photos, or an MP4 video, are read"
