"""Makes the scene and the picture that come with the package: `python -m dofnerf.lab.synth.package_scene OUT`.

OUT/demo_scene becomes `src/dofnerf/scenes/demo_scene`: 24 views of the tabletop as JPEG triplets, with sparse points
that are triangulated from the blurred training photos: neither sharp photos nor true depth nor held-out views take
part, so they are what a user's own capture would give. OUT/demo becomes `src/dofnerf/files/demo`: one larger sharp
picture with its depth, for trying the lens without any training. Takes about half an hour on two cores; can be stopped
and resumed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from dofnerf import scenes
from dofnerf.files import atomic, write_image, write_json, write_map
from dofnerf.files.ply import write_ply
from dofnerf.lab.synth.layout import middle_view
from dofnerf.lab.synth.layouts import make_layout
from dofnerf.lab.synth.lens import DISPLAY_GAMMA, LensSceneConfig, make_lens_scene
from dofnerf.lab.synth.raytrace import RayTracer
from dofnerf.models.splat.start.triangulation import Effort, triangulated
from dofnerf.scenes.scene import Points, Scene

DEMO = LensSceneConfig(layout="tabletop", views=24, size=(252, 168), seed=0, samples=128, suffix=".jpg", depth=False)
PICTURE_SIZE = (504, 336)
# Integer depth steps per scene unit: 1/1000 unit each, so 65 units at the most fit into 16 bits.
DEPTH_STEPS = 1000
_EFFORT = Effort(features=6000, first_octave=-1, seconds=3600)  # there is time: more features, from half a pixel on
_WORST_ERROR = 0.3  # pixels of the photo


def make_demo_scene(out: Path | str, config: LensSceneConfig = DEMO, progress: bool = True) -> Path:
    """The packaged scene, in the folder `out`; returns the path of its transforms.json."""
    transforms = make_lens_scene(out, config, progress)
    add_points(transforms)
    return transforms


def add_points(transforms: Path | str, hold_every: int = 9, hold_from: int = 4) -> int:
    """Triangulate sparse points, write them and name the files in `transforms` (a transforms.json); returns their
    number.

    `points.ply` has xyz, rgb, and `error`, the mean reprojection error in pixels; `visible/NAME.npy`, for each training
    photo, the numbers of the points that it saw and their errors. Views `hold_from`, `hold_from + hold_every`, … are
    held out and do not contribute.
    """
    transforms = Path(transforms)
    scene = scenes.load(transforms, mix="photo", hold_every=hold_every, hold_first=hold_from)
    try:
        found, _ = triangulated(scene, _EFFORT)
    except ValueError as error:
        raise ValueError(f"{transforms}: triangulation failed: {error}") from None
    assert found.points is not None
    keep = (found.points.error < _WORST_ERROR) & _inside(scene, found.points.xyz)
    points = Points(found.points.xyz[keep], found.points.rgb[keep], found.points.error[keep])
    if len(points) < 10:
        raise ValueError(f"{transforms}: only {len(points)} triangulated points; use more views or larger photos")
    write_points(transforms, points, {i: np.isin(np.flatnonzero(keep), found.visible(i).ids) for i in scene.train})
    return len(points)


def write_points(transforms: Path, points: Points, seen: dict[int, np.ndarray]) -> None:
    """Write `points` and, for the frames that are keys of `seen`, which of them it saw, bool (P,); name the files."""
    scene = json.loads(transforms.read_text(encoding="utf-8"))
    write_ply(transforms.parent / "points.ply", points)
    frames = scene.pop("frames")
    for index, frame in enumerate(frames):
        frame.pop("visible_file_path", None)
        if index in seen:
            ids = np.flatnonzero(seen[index])
            frame["visible_file_path"] = f"visible/{index:03d}.npy"
            write_map(transforms.parent / frame["visible_file_path"], np.stack([ids, points.error[ids]], axis=1))
    write_json(transforms, {**scene, "ply_file_path": "points.ply", "frames": frames})


def _inside(scene: Scene, points: np.ndarray) -> np.ndarray:
    """Points whose depth is within the scene's bounds in every training view; strays are wrong matches."""
    good = np.ones(len(points), dtype=bool)
    for i in scene.train:
        depth = scene.camera(i).project(points)[1]
        good &= (depth > scene.near) & (depth < scene.far)
    return good


def make_demo_picture(out: Path | str, samples: int = 128, size: tuple[int, int] = PICTURE_SIZE) -> Path:
    """picture.jpg (sharp), depth.png (16-bit integers) and depth.json (what they mean), in the folder `out`."""
    out = Path(out)
    layout = make_layout(DEMO.layout, DEMO.seed)
    tracer = RayTracer(layout.parts, layout.sky)
    camera = middle_view(layout, size)
    linear = tracer.photo(camera, None, samples, DEMO.seed)
    write_image(out / "picture.jpg", np.clip(linear, 0.0, 1.0) ** (1.0 / DISPLAY_GAMMA))
    depth = np.minimum(tracer.depth(camera), layout.far)
    with atomic(out / "depth.png") as temporary:
        Image.fromarray(np.round(depth * DEPTH_STEPS).astype(np.uint16)).save(temporary, optimize=True)
    facts = {
        "picture": "picture.jpg",
        "depth": "depth.png",
        "depth_scale": 1.0 / DEPTH_STEPS,
        "about": "depth along the optical axis in scene units = integer value × depth_scale",
        "focal_px": camera.fx,
        "light": DISPLAY_GAMMA,
        "aperture": camera.fx * layout.lens_radius,
        "near_focus": layout.near_focus,
        "far_focus": layout.far_focus,
    }
    write_json(out / "depth.json", facts)
    return out / "picture.jpg"


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the demo scene and picture that come with dofnerf.")
    parser.add_argument("out", type=Path, help="a folder; demo_scene/ and demo/ are made in it")
    out = parser.parse_args().out
    try:
        make_demo_picture(out / "demo")
        make_demo_scene(out / "demo_scene")
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
