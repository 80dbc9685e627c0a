"""Train on a scene from Python, and photograph it again with a lens of your own.

python examples/03_train_and_shoot.py [--scene demo] [--out runs/example]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dofnerf import scenes, train
from dofnerf.files import write_image
from dofnerf.optics import Blades
from dofnerf.studio.flags import LensFlags
from dofnerf.studio.shoot import sharp_picture
from dofnerf.train import preset, shortened


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scene", default="demo", help="a scene's folder; demo is the one in the package")
    parser.add_argument("--width", type=int, default=None, help="train on photos of so many pixels across")
    parser.add_argument("--steps", type=float, default=0.56, help="share of the preset's steps")
    parser.add_argument("--view", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/example"))
    args = parser.parse_args()

    scene = scenes.load(args.scene, width=args.width)
    run = train(scene, shortened(preset("fast"), args.steps), out=args.out)
    for row in run.photo_table()[:3]:  # what was found about each photo
        print(f"{row['photo']}: aperture {row['aperture']:.2f} px × scene units, focus at {row['focus_depth']:.2f}")

    camera = scene.camera(args.view)
    sharp, picture = sharp_picture(run.model, camera)  # with depth, to focus on
    middle = f"{camera.width // 2},{camera.height // 2}"
    lens, words = LensFlags(focus_at=middle).resolve(camera, picture)  # as `dofnerf render --focus-at` does
    assert lens is not None
    print(f"shot with aperture {lens.aperture:.2f}, focus {lens.focus_depth:.2f}: {words}")
    disc = run.render(camera, lens.aperture, lens.focus_depth).image
    blades = run.render(camera, lens.aperture, lens.focus_depth, Blades(count=6)).image
    for name, image in (("sharp", sharp.image), ("shallow", disc), ("six-blades", blades)):
        write_image(args.out / f"{name}.png", image.clamp(0, 1).numpy())


if __name__ == "__main__":
    main()
