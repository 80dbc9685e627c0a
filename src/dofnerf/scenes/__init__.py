"""Scenes: photos + cameras + depth range + split, from any of several formats.

    scene = scenes.load("fern", downscale=8)
    scene.photo(0), scene.camera(0), scene.near, scene.far, scene.train, scene.test

The format is detected, or named: see docs/formats.md; formats/ has a file for each.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dofnerf.optics.lens import Lens
from dofnerf.scenes import formats
from dofnerf.scenes.export import plain_stems, write_cameras, write_transforms
from dofnerf.scenes.formats.transforms import read_cameras
from dofnerf.scenes.overview import describe, describe_photos, write_contact_sheet
from dofnerf.scenes.reading import PACKAGED, Found, GridOptions, Origin, ReadOptions, assemble
from dofnerf.scenes.scene import Frame, Points, Scene, Viewpoint, Visible
from dofnerf.scenes.source import PictureFile

DEMO = Path(__file__).parent / "demo_scene"


def load(path: Path | str, *, format: str = "auto", options: ReadOptions | None = None, **changes: Any) -> Scene:
    """Read the scene at `path`, a folder or its file; "demo", if no folder is called so, is the one in the package.

    `changes` are fields of ReadOptions by name.
    """
    path = Path(path)
    options = replace(options or ReadOptions(), **changes)
    if str(path) == PACKAGED and not path.exists():
        return demo(options=options)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such scene")
    reader, path = formats.find(path, format)
    origin = Origin(PACKAGED if path == DEMO else str(path.absolute()), reader.name, options)
    return replace(assemble(reader.read(path, options), options), origin=origin)


def load_again(origin: Origin) -> Scene:
    """The scene that was read there, with the same options."""
    if origin.path == PACKAGED:
        return demo(options=origin.options)
    return load(origin.path, format=origin.format, options=origin.options)


def detect(path: Path) -> str:
    """The name of the format of the scene at `path`."""
    return formats.find(path)[0].name


def demo(**changes: Any) -> Scene:
    """The small true-lens scene that comes with the package."""
    if not (DEMO / "transforms.json").is_file():
        missing = "the demo scene is not part of this installation; make one with `dofnerf synth lens`"
        raise FileNotFoundError(f"{DEMO}: {missing}")
    return load(DEMO, **changes)


__all__ = [
    "DEMO", "PACKAGED", "Found", "Frame", "GridOptions", "Lens", "Origin", "PictureFile", "Points", "ReadOptions",
    "Scene", "Viewpoint", "Visible", "demo", "describe", "describe_photos", "detect", "load", "load_again",
    "plain_stems", "read_cameras", "write_cameras", "write_contact_sheet", "write_transforms",
]  # fmt: skip
