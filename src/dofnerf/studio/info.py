"""What a scene is, at a glance: `dofnerf info`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from dofnerf import scenes
from dofnerf.files.outputs import check_file
from dofnerf.scenes.formats import FormatName


@dataclass(frozen=True)
class InfoConfig:
    """Say what a scene and each of its photos is, and draw a sheet with its photos, its cameras and its sparse points.

    For example:
      dofnerf info fern --downscale 8
      dofnerf info capture --format colmap --sheet capture.png
    """

    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PATH")]
    """The scene: a folder (LLFF, COLMAP, transforms.json, triplets, light field) or its transforms.json."""
    sheet: Annotated[
        Path | None, tyro.conf.arg(help_behavior_hint="(default: NAME-sheet.png in the current folder)")
    ] = None
    """Where the contact sheet goes, a PNG."""
    format: FormatName = "auto"
    """The scene's format; auto looks."""
    reading: scenes.ReadOptions = field(default_factory=scenes.ReadOptions)


def run(config: InfoConfig) -> Path:
    """Print what the scene is and write its contact sheet; returns the sheet's path."""
    if config.sheet is not None:
        check_file("--sheet", config.sheet, (".png", ".jpg"))
    scene = scenes.load(config.path, format=config.format, options=config.reading)
    sheet = config.sheet or default_sheet(config.path, scene.name)
    check_file("--sheet", sheet, (".png", ".jpg"))
    print(scenes.describe(scene))
    print(scenes.describe_photos(scene), flush=True)
    scenes.write_contact_sheet(scene, sheet)
    print(f"wrote {sheet}")
    return sheet


def default_sheet(path: Path, name: str) -> Path:
    """In the current folder, or beside the scene if that is where we are: a scene's own folder stays as it is."""
    root = (path.parent if path.is_file() else path).resolve()
    name = f"{name}-sheet.png"
    return root.parent / name if Path.cwd().is_relative_to(root) else Path(name)
