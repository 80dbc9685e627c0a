"""Frames → GIF or MP4 (H.264, plays in browsers)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from dofnerf.files.pictures import atomic, to_bytes


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
    images = [_with_palette(Image.fromarray(to_bytes(frame))) for frame in frames]
    if not images:
        raise ValueError(f"{path}: no frames to write")
    with atomic(path) as temporary:
        duration = max(20, round(1000 / fps))
        images[0].save(temporary, save_all=True, append_images=images[1:], duration=duration, loop=0)


def _with_palette(image: Image.Image) -> Image.Image:
    """256 colours of its own for each frame: a rack focus has other colours at each end, and a shared palette bands.

    The octree keeps rare colours that the median cut loses. Pillow dithers only when it is given a palette, hence two
    passes; without dither, blur turns into contour lines.
    """
    palette = image.quantize(256, method=Image.Quantize.FASTOCTREE)
    return image.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)


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
