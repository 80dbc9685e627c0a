"""`dofnerf capture`: a folder of photos, or a video, in; a scene's folder out."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from dofnerf.capture.pipeline import SHEET, CaptureOptions, capture
from dofnerf.files.progress import Progress
from dofnerf.scenes import Scene


@dataclass(frozen=True)
class CaptureConfig:
    """Find out where photos were taken, and write a scene to train on. Needs pycolmap: pip install 'dofnerf[capture]'.

    Stopped and called again, it goes on where it was.

    For example:
      dofnerf capture photos --out scene
      dofnerf capture clip.mp4 --out scene --every 15
      dofnerf capture photos --out scene --scale-by IMG_1.jpg,IMG_9.jpg,0.42
    """

    photos: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PHOTOS")]
    """A folder of photos (JPEG, PNG, TIFF, HEIC) of one still scene, or a video (MP4)."""
    out: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="(default: NAME-scene in the current folder)")] = None
    """The scene's folder: transforms.json, images, points.ply, and a sheet of the photos."""
    capture: CaptureOptions = dataclasses.field(default_factory=CaptureOptions)


def default_out(photos: Path, what: str) -> Path:
    """NAME-scene or the like, in the current folder, after the folder or video of photos."""
    return Path(f"{photos.resolve().stem or 'photos'}-{what}")


def run(config: CaptureConfig) -> Scene:
    """Capture as the config says; returns the scene."""
    out = config.out or default_out(config.photos, "scene")
    with Progress(keep=True) as display:
        scene = capture(config.photos, out, config.capture, display)
    print(f"scene    {scene.describe()}")
    for note in scene.notes[:1]:
        print(f"         {note}")
    print(f"wrote    {out}; the photos are on {out / SHEET}; next: dofnerf train {shlex.quote(str(out))}")
    return scene
