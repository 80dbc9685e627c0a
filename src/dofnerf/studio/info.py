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
    """Say what a scene and each of its photos is; with --sheet, also draw its photos, its cameras and its sparse
    points.

    For example:
      dofnerf info fern --downscale 8
      dofnerf info capture --format colmap --sheet capture.png
    """

    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PATH")]
    """The scene: a folder (LLFF, COLMAP, transforms.json, triplets, light field) or its transforms.json."""
    sheet: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(optional)")] = None
    """Write a contact sheet to this file, a .png or .jpg."""
    format: FormatName = "auto"
    """The scene's format; auto looks."""
    reading: scenes.ReadOptions = field(default_factory=scenes.ReadOptions)


def run(config: InfoConfig) -> Path | None:
    """Print what the scene is, and write its contact sheet if asked to; returns the sheet's path."""
    if config.sheet is not None:
        check_file("--sheet", config.sheet, (".png", ".jpg"))
    scene = scenes.load(config.path, format=config.format, options=config.reading)
    print(scenes.describe(scene))
    print(scenes.describe_photos(scene), flush=True)
    if config.sheet is not None:
        scenes.write_contact_sheet(scene, config.sheet)
        print(f"wrote {config.sheet}")
    return config.sheet
