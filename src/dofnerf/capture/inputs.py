"""The photos and videos of a folder, by their names alone; and still photos from a video, the sharpest of each
window."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dofnerf.capture.photos import sharpness
from dofnerf.files import write_image, write_json
from dofnerf.files.decoding import RAW_SUFFIXES
from dofnerf.files.guard import check_regular, first_line, inside, read_json_value
from dofnerf.files.pictures import PHOTO_SUFFIXES
from dofnerf.scenes.masks import FOLDER

# By suffix, how ffmpeg takes a video apart: left to itself, it follows play lists, which may name anything.
VIDEOS = {".mp4": "mov", ".mov": "mov", ".m4v": "mov", ".avi": "avi", ".mkv": "matroska", ".webm": "matroska"}
LIGHT = (".exr", ".hdr")
VIDEO_PHOTOS = 80  # from a video, by default
_DONE = "frames.json"
_SHARPNESS_WIDTH = 480  # pixels across, at which the sharpness of frames is compared


@dataclass(frozen=True)
class Listing:
    """`photos` and `videos` in the order of their names and numbers, and `warnings` about files that cannot be used.
    `places` are the sub-folders of photos that were sorted into such by place, by photo."""

    photos: tuple[Path, ...]
    videos: tuple[Path, ...]
    warnings: tuple[str, ...] = ()
    places: Mapping[Path, str] = field(default_factory=dict)


def list_files(source: Path) -> Listing:
    """The photos and videos of a folder, or the one video that `source` is. Opens no file.

    A folder that holds nothing but folders has one for each place: the photos in it are a focus bracket.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source}: there is no such folder or video")
    if source.is_file():
        return _single(source)
    there = (path for path in source.iterdir() if path.is_file() and not path.name.startswith("."))
    files = sorted(there, key=_natural)
    developed = [path for path in files if path.suffix.lower() in (*PHOTO_SUFFIXES, *LIGHT)]
    taken = {path.stem.lower() for path in developed}
    raw = [path for path in files if path.suffix.lower() in RAW_SUFFIXES and path.stem.lower() not in taken]
    photos = sorted([*developed, *raw], key=_natural)  # a RAW beside a JPEG of its name is that photo once more
    taken |= {path.stem.lower() for path in raw}
    all_videos = [path for path in files if path.suffix.lower() in VIDEOS]
    videos = [path for path in all_videos if path.stem.lower() not in taken]  # a "live photo" is a photo and a video
    if not photos and not videos:
        if not files and (brackets := _brackets(source)):
            return brackets
        raise ValueError(_nothing(source, files))
    warnings = []
    if left := len(all_videos) - len(videos):
        warnings.append(f"{left} videos are left out, because there are photos of the same names")
    return Listing(tuple(photos), tuple(videos), tuple(warnings))


def _brackets(source: Path) -> Listing | None:
    """The photos of a folder's sub-folders, if there are any."""
    parts: list[tuple[str, Path]] = []
    for folder in sorted((path for path in source.iterdir() if path.is_dir()), key=_natural):
        if folder.name != FOLDER and not folder.name.startswith("."):
            with contextlib.suppress(ValueError):  # a folder of something else
                parts += [(folder.name, photo) for photo in list_files(folder).photos]
    twice = [name for name, count in Counter(photo.name for _, photo in parts).items() if count > 1]
    if twice:
        raise ValueError(
            f"{source}: two of its sub-folders hold a photo called {twice[0]}; give each a name of its own"
        )
    many = len({place for place, _ in parts}) > 1
    return Listing(tuple(p for _, p in parts), (), (), {photo: place for place, photo in parts}) if many else None


def _natural(path: Path) -> list[tuple[int, str]]:
    """IMG_2 before IMG_10: by the numbers in a name, which is the order in which photos were taken."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", path.name)]


def _single(source: Path) -> Listing:
    suffix = source.suffix.lower()
    if suffix in VIDEOS:
        return Listing((), (source,))
    if suffix in (*PHOTO_SUFFIXES, *LIGHT, *RAW_SUFFIXES):
        raise ValueError(f"{source}: one photo is not enough; give the folder that holds all photos of the scene")
    raise ValueError(f"{source}: neither a folder of photos nor a video ({' '.join(VIDEOS)})")


def _nothing(source: Path, files: list[Path]) -> str:
    if not files:
        below = sum(path.is_dir() for path in source.iterdir())
        folders = f" but for {below} folders; give the one that holds the photos" if below else ""
        return f"{source}: the folder is empty{folders}"
    common = Counter(path.suffix for path in files).most_common(3)
    kinds = ", ".join(f"{count} {kind or 'without suffix'}" for kind, count in common)
    return f"{source}: no photos ({kinds}); JPEG, PNG, TIFF, HEIC and RAW photos, or an MP4 video, are read"


def extract_frames(video: Path, folder: Path, every: int | None, report: Callable[[int, int], None]) -> list[Path]:
    """Write the sharpest frame of every `every` frames into `folder` as JPEG; the files, in the video's order.

    Without `every`, about 80 frames come out. A folder that was finished before is taken as it is.
    """
    done = folder / _DONE
    if done.is_file() and isinstance(known := read_json_value(done), list):
        return [inside(folder, name, str(done)) for name in known]
    total, size, frames = _open(video)
    window = every if every is not None else max(1, round(total / VIDEO_PHOTOS))
    names: list[str] = []
    best: tuple[float, np.ndarray | None] = (-1.0, None)
    count = 0

    def write(number: int) -> None:
        names.append(f"{video.stem}-{number:04d}.jpg")
        assert best[1] is not None
        write_image(folder / names[-1], best[1])

    try:
        for count, frame in enumerate(_decoded(video, frames, size), 1):
            best = max(best, (_sharpness(frame), frame), key=lambda pair: pair[0])
            if count % window == 0:
                write(count // window)
                best = (-1.0, None)
                report(min(count, total), total)
        if best[1] is not None and count % window > window // 2:
            write(count // window + 1)
    finally:
        frames.close()
    if not names:
        raise ValueError(f"{video}: {count} frames, too few for one photo every {window}; use a smaller --every")
    report(total, total)
    write_json(done, names)
    return [folder / name for name in names]


def _open(video: Path) -> tuple[int, tuple[int, int], Any]:
    """The approximate number of frames, their size (width, height), and ffmpeg's stream of them."""
    import imageio_ffmpeg

    check_regular(video)
    only = ["-protocol_whitelist", "file", "-f", VIDEOS[video.suffix.lower()]]
    # An absolute path: "http:x.mp4" would be an address.
    frames = imageio_ffmpeg.read_frames(str(video.absolute()), pix_fmt="rgb24", input_params=only)
    try:
        about = next(frames)
    except (OSError, StopIteration, RuntimeError, KeyError, IndexError, ValueError) as error:
        raise ValueError(f"{video}: not a video that ffmpeg can read ({first_line(error)[:120]})") from None
    seconds, rate = about.get("duration") or 0.0, about.get("fps") or 30.0
    return max(1, round(seconds * rate)), tuple(about["size"]), frames


def _decoded(video: Path, frames: Any, size: tuple[int, int]) -> Iterator[np.ndarray]:
    width, height = size
    try:
        for data in frames:
            yield np.frombuffer(data, dtype=np.uint8).reshape(height, width, 3)
    except (RuntimeError, OSError, ValueError) as error:
        raise ValueError(f"{video}: the video breaks off ({first_line(error)[:120]})") from None


def _sharpness(frame: np.ndarray) -> float:
    picture = Image.fromarray(frame)
    if picture.width > _SHARPNESS_WIDTH:
        size = _SHARPNESS_WIDTH, round(picture.height * _SHARPNESS_WIDTH / picture.width)
        picture = picture.resize(size, Image.Resampling.BOX)
    return sharpness(np.asarray(picture, dtype=np.float32) / 255)
