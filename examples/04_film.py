"""A film of a trained run: the camera swings around what is in the middle, while the focus goes from near to far.

python examples/04_film.py runs/example [--out orbit.gif]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dofnerf.files import write_video
from dofnerf.models import Blur
from dofnerf.optics import Lens, shape_of
from dofnerf.studio.paths import orbit, there_and_back
from dofnerf.studio.shoot import photograph, sharp_picture
from dofnerf.studio.source import open_source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="the folder of a run, or a .ply of splats")
    parser.add_argument("--frames", type=int, default=48)
    parser.add_argument("--width", type=int, default=None)
    parser.add_argument("--blades", type=int, default=6)
    parser.add_argument("--out", type=Path, default=Path("orbit.gif"))
    args = parser.parse_args()

    source = open_source(args.run)
    camera = source.views[0].camera
    width = args.width or camera.width
    camera = camera.resized(width, round(camera.height * width / camera.width))
    far, near = sharp_picture(source.model, camera)[1].disparity_range()  # 1 / depth
    aperture = 0.03 * width / (near - far)  # the largest blur radius is 3 % of the width
    pivot = camera.position + camera.forward * 2 / (near + far)
    cameras = orbit(camera, pivot, args.frames, degrees=20.0, once=False)
    blur = Blur(layers=8, light=source.light)

    def frames() -> Iterator[np.ndarray]:
        for one, share in zip(cameras, there_and_back(args.frames, once=False), strict=True):
            lens = Lens(aperture, shape=shape_of(None, args.blades), focus_disparity=near + (far - near) * share)
            light = photograph(source.model, one, lens, blur)  # (H, W, 3), linear
            yield np.clip(light, 0, 1) ** (1 / 2.2)

    write_video(args.out, frames(), 24.0)
    print(f"{args.out}: {args.frames} frames")


if __name__ == "__main__":
    main()
