"""Frames → GIF or MP4 (H.264, plays in browsers)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from dofnerf.pictures.files import atomic, to_bytes


def write_video(path: Path | str, frames: Iterable[np.ndarray], fps: float = 24) -> None:
    """Write frames (H, W, 3), float 0..1 or uint8, all of one size; the suffix (.gif or .mp4) chooses the format."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".gif":
        _write_gif(path, frames, fps)
    elif suffix == ".mp4":
        _write_mp4(path, frames, fps)
    else:
        raise ValueError(f"{path}: a video is written as .gif or .mp4, not {suffix or '(none)'}")


def _write_gif(path: Path, frames: Iterable[np.ndarray], fps: float) -> None:
    # One palette per frame: a rack focus has other colours at each end, and a shared palette bands.
    images = [Image.fromarray(to_bytes(f)).quantize(256, dither=Image.Dither.FLOYDSTEINBERG) for f in frames]
    if not images:
        raise ValueError(f"{path}: no frames to write")
    with atomic(path) as temporary:
        duration = max(20, round(1000 / fps))
        images[0].save(temporary, save_all=True, append_images=images[1:], duration=duration, loop=0)


def _write_mp4(path: Path, frames: Iterable[np.ndarray], fps: float) -> None:
    import imageio_ffmpeg

    stream = iter(frames)
    first = next(stream, None)
    if first is None:
        raise ValueError(f"{path}: no frames to write")
    height, width = (side - side % 2 for side in first.shape[:2])  # H.264 with 4:2:0 colour wants even sides
    with atomic(path) as temporary:
        writer = imageio_ffmpeg.write_frames(
            str(temporary), (width, height), fps=fps, codec="libx264", macro_block_size=1, quality=None,
            output_params=["-crf", "18", "-movflags", "+faststart"],
        )  # fmt: skip
        writer.send(None)
        try:
            writer.send(np.ascontiguousarray(to_bytes(first)[:height, :width]))
            for frame in stream:
                if frame.shape != first.shape:
                    raise ValueError(f"{path}: frames differ in size ({frame.shape[:2]} after {first.shape[:2]})")
                writer.send(np.ascontiguousarray(to_bytes(frame)[:height, :width]))
        finally:
            writer.close()
