"""Scenes: photos + cameras + depth bounds + split, from whatever format people have.

    scene = scenes.load("fern", downscale=8)
    scene.photo(0), scene.camera(0), scene.near, scene.far, scene.train, scene.test

The format is found by looking, or named: see docs/formats.md.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dofnerf.files.pictures import PHOTO_SUFFIXES
from dofnerf.files.ply import Drawing, Splats, read_drawing, read_splats, write_splats
from dofnerf.optics.lens import Lens
from dofnerf.scenes.colmap_model import find_model
from dofnerf.scenes.export import plain_stems, write_transforms
from dofnerf.scenes.formats import colmap, lightfield, llff, transforms, triplets
from dofnerf.scenes.origin import PACKAGED, Origin
from dofnerf.scenes.overview import describe, describe_photos, write_contact_sheet
from dofnerf.scenes.protocol import GridOptions, ReadOptions, assemble
from dofnerf.scenes.scene import Frame, Points, Scene, Viewpoint, Visible
from dofnerf.scenes.viewpoints import read_cameras, write_cameras

READERS = {
    "transforms": transforms.read,
    "triplets": triplets.read,
    "llff": llff.read,
    "colmap": colmap.read,
    "lightfield": lightfield.read,
}
DEMO = Path(__file__).parent / "demo_scene"


def load(path: Path | str, *, format: str = "auto", options: ReadOptions | None = None, **changes: Any) -> Scene:
    """Read the scene at `path`, a folder or its transforms.json; "demo", if no folder is called so, is the one in the
    package. `changes` are fields of ReadOptions by name."""
    path = Path(path)
    options = replace(options or ReadOptions(), **changes)
    if str(path) == PACKAGED and not path.exists():
        return demo(options=options)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such scene")
    if format == "auto":
        format = detect(path)
    if format not in READERS:
        raise ValueError(f"{path}: unknown format {format!r}; use auto or one of {', '.join(READERS)}")
    if path.is_file() and format != "transforms":
        path = path.parent
    origin = Origin(PACKAGED if path == DEMO else str(path.absolute()), format, options)
    return replace(assemble(READERS[format](path, options), options), origin=origin)


def load_again(origin: Origin) -> Scene:
    """The scene that was read there, read as it was."""
    if origin.path == PACKAGED:
        return demo(options=origin.options)
    return load(origin.path, format=origin.format, options=origin.options)


def detect(path: Path) -> str:
    """The format of the scene at `path`."""
    if path.is_file():
        if path.suffix == ".json":
            return "transforms"
        path = path.parent
    if transforms.find_files(path):
        return "transforms"
    if (path / llff.POSES).is_file():
        return "triplets" if triplets.find_triplets(path) else "llff"
    if find_model(path):
        return "colmap"
    if lightfield.find_views(path):
        return "lightfield"
    expected = "transforms.json, poses_bounds.npy, a COLMAP model in sparse/0, or view_00_00.jpg …"
    if any(found.suffix.lower() in PHOTO_SUFFIXES for found in path.iterdir()):
        raise ValueError(
            f"{path}: photos without poses; `dofnerf capture {path}` finds those, `dofnerf run {path}` does all"
        )
    if (path / "checkpoint.safetensors").exists():
        raise ValueError(f"{path}: a trained run, not a scene; `dofnerf render`, `view`, `eval` and `report` take it")
    raise ValueError(f"{path}: not a scene; expected {expected}")


def demo(**changes: Any) -> Scene:
    """The small true-lens scene that comes with the package."""
    if not (DEMO / "transforms.json").is_file():
        raise FileNotFoundError(
            f"{DEMO}: the demo scene is not part of this installation; make one with `dofnerf synth lens`"
        )
    return load(DEMO, **changes)


__all__ = [
    "PACKAGED",
    "Drawing",
    "Frame",
    "GridOptions",
    "Lens",
    "Origin",
    "Points",
    "ReadOptions",
    "Scene",
    "Splats",
    "Viewpoint",
    "Visible",
    "demo",
    "describe",
    "describe_photos",
    "detect",
    "load",
    "load_again",
    "plain_stems",
    "read_cameras",
    "read_drawing",
    "read_splats",
    "write_cameras",
    "write_contact_sheet",
    "write_splats",
    "write_transforms",
]
