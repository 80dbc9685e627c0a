"""Makes the scene and the picture that come with the package: `python -m dofnerf.lab.synth.package_scene OUT`.

OUT/demo_scene becomes `src/dofnerf/scenes/demo_scene`: 24 views of the tabletop as JPEG triplets, with sparse points
that are triangulated from the blurred training photos. OUT/demo becomes `src/dofnerf/files/demo`: one larger sharp
picture with its depth, for trying the lens without any training. Takes about half an hour on two cores; can be stopped
and resumed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from dofnerf.files import atomic, write_image, write_json
from dofnerf.lab.synth.layouts import make_layout
from dofnerf.lab.synth.lens import DISPLAY_GAMMA, LensSceneConfig, make_lens_scene
from dofnerf.lab.synth.points import add_points
from dofnerf.lab.synth.raytrace import RayTracer
from dofnerf.lab.synth.rig import middle_view

DEMO = LensSceneConfig(layout="tabletop", views=24, size=(252, 168), seed=0, samples=128, suffix=".jpg", depth=False)
PICTURE_SIZE = (504, 336)
# Integer depth steps per scene unit: 1/1000 unit each, so 65 units at the most fit into 16 bits.
DEPTH_STEPS = 1000


def make_demo_scene(out: Path | str, config: LensSceneConfig = DEMO, progress: bool = True) -> Path:
    """The packaged scene, in the folder `out`; returns the path of its transforms.json."""
    transforms = make_lens_scene(out, config, progress)
    add_points(transforms)
    return transforms


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
    """Both, into the folder given on the command line."""
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
