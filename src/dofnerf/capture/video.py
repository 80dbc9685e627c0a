"""Still photos from a video: of each window of frames, the sharpest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dofnerf.capture.photos import sharpness
from dofnerf.files import write_image, write_json
from dofnerf.files.guard import first_line

WANTED = 80  # photos from a video, where nobody says how many
_DONE = "frames.json"
_LOOK = 480  # pixels across, to judge sharpness by


def extract_frames(video: Path, folder: Path, every: int | None, report: Callable[[int, int], None]) -> list[Path]:
    """Write the sharpest frame of every `every` frames into `folder` as JPEG; the files, in the video's order.

    Without `every`, about 80 frames come out. A folder that was finished before is taken as it is.
    """
    done = folder / _DONE
    if done.is_file():
        return [folder / name for name in json.loads(done.read_text(encoding="utf-8"))]
    total, size, frames = _open(video)
    window = every if every is not None else max(1, round(total / WANTED))
    names = []
    best: tuple[float, np.ndarray | None] = (-1.0, None)
    count = 0
    try:
        for count, frame in enumerate(_pictures(video, frames, size), 1):
            score = _sharp(frame)
            best = max(best, (score, frame), key=lambda pair: pair[0])
            if count % window == 0:
                names.append(_write(folder, video, count // window, best[1]))
                best = (-1.0, None)
                report(min(count, total), total)
        if best[1] is not None and count % window > window // 2:
            names.append(_write(folder, video, count // window + 1, best[1]))
    finally:
        frames.close()
    if not names:
        raise ValueError(f"{video}: {count} frames, too few for one photo every {window}; use a smaller --every")
    report(total, total)
    write_json(done, names)
    return [folder / name for name in names]


def _open(video: Path) -> tuple[int, tuple[int, int], Any]:
    """About how many frames, their size (width, height), and ffmpeg's stream of them."""
    import imageio_ffmpeg

    frames = imageio_ffmpeg.read_frames(str(video), pix_fmt="rgb24")
    try:
        about = next(frames)
    except (OSError, StopIteration, RuntimeError, KeyError, IndexError, ValueError) as error:
        raise ValueError(f"{video}: not a video that ffmpeg can read ({first_line(error)[:120]})") from None
    seconds, rate = about.get("duration") or 0.0, about.get("fps") or 30.0
    return max(1, round(seconds * rate)), tuple(about["size"]), frames


def _pictures(video: Path, frames: Any, size: tuple[int, int]) -> Iterator[np.ndarray]:
    width, height = size
    try:
        for data in frames:
            yield np.frombuffer(data, dtype=np.uint8).reshape(height, width, 3)
    except (RuntimeError, OSError, ValueError) as error:
        raise ValueError(f"{video}: the video breaks off ({first_line(error)[:120]})") from None


def _sharp(frame: np.ndarray) -> float:
    picture = Image.fromarray(frame)
    if picture.width > _LOOK:
        picture = picture.resize((_LOOK, round(picture.height * _LOOK / picture.width)), Image.Resampling.BOX)
    return sharpness(np.asarray(picture, dtype=np.float32) / 255)


def _write(folder: Path, video: Path, number: int, frame: np.ndarray | None) -> str:
    assert frame is not None
    name = f"{video.stem}-{number:04d}.jpg"
    write_image(folder / name, frame)
    return name
