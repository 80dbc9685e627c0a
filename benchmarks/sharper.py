"""Is the sharp render sharper than each photo, where that photo is blurred? For real photos, of which there are no
sharp ones.

    python benchmarks/sharper.py RUN SCENE --width 390
    python benchmarks/sharper.py RUN SCENE --width 390 --picture crops.jpg --views 0 9 16

A photo is blurred where the lens found for it gives a radius above 2 pixels, and in focus where below 0.7. In both
places: the energy of the differences between neighbours in the sharp render over that in the photo. In focus it should
be about 1: grain that the render made up would show there, too. `as shot` is the PSNR of the render through the lens
found, against the photo.

The picture has a row for each of the views: the render through the lens found for that photo, the sharp one, and crops
of both where the difference is largest; with --beside also the photo itself, in front.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.ndimage import uniform_filter

from dofnerf import scenes
from dofnerf.evaluate.metrics import psnr
from dofnerf.files import write_image
from dofnerf.train import Run

BLURRED, IN_FOCUS, FEWEST = 2.0, 0.7, 0.005  # pixels of radius, twice; share of a photo's pixels to count as a region


def energy(picture: np.ndarray) -> np.ndarray:
    """(H, W): squared differences between neighbours."""
    grey = picture.mean(-1)
    return np.diff(grey, axis=1, append=grey[:, -1:]) ** 2 + np.diff(grey, axis=0, append=grey[-1:]) ** 2


def row(shot: np.ndarray, sharp: np.ndarray, photo: np.ndarray, beside: bool) -> np.ndarray:
    """Pictures side by side, then twofold crops of them from where the sharp one has most more detail."""
    tall, wide = shot.shape[0] // 2, shot.shape[1] // 2
    more = uniform_filter(energy(sharp) - energy(photo), (tall, wide))[tall // 2 : -tall // 2, wide // 2 : -wide // 2]
    top, left = np.unravel_index(int(more.argmax()), more.shape)
    whole = [photo, shot, sharp] if beside else [shot, sharp]
    parts = [one[top : top + tall, left : left + wide].repeat(2, axis=0).repeat(2, axis=1) for one in whole]
    height = 2 * tall
    return np.concatenate([one[:height, : 2 * wide] for one in (*whole, *parts)], axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("scene", type=Path)
    parser.add_argument("--width", type=int)
    parser.add_argument("--picture", type=Path)
    parser.add_argument(
        "--views", type=int, nargs="+", default=[0], help="training photos of the picture, counted from 0"
    )
    parser.add_argument("--beside", action="store_true", help="show the photos, too")
    given = parser.parse_args()
    run, scene = Run.load(given.run), scenes.load(given.scene, width=given.width)
    print("| photo | blurred | detail there | in focus | detail there | as shot |\n|---|---|---|---|---|---|")
    gains, rows = [], {}
    for number, (i, lens) in enumerate(zip(scene.train, run.lenses, strict=True)):
        camera, photo = scene.camera(i), scene.photo(i)
        view = run.render(camera)
        sharp = view.image.clamp(0, 1).numpy()
        shot = run.render(camera, lens.aperture, lens.focus_depth).image.clamp(0, 1).numpy()
        radius = np.abs(lens.coc_radius(1 / np.maximum(view.disparity.numpy(), 1e-6)))
        words = [scene.frames[i].name]
        for where in (radius > BLURRED, radius < IN_FOCUS):
            enough = where.mean() > FEWEST
            ratio = energy(sharp)[where].sum() / energy(photo)[where].sum() if enough else np.nan
            words += [f"{100 * where.mean():.0f} %", f"{ratio:.2f}×" if enough else ""]
            gains.append(ratio)
        print(f"| {' | '.join(words)} | {psnr(shot, photo):.1f} dB |", flush=True)
        if number in given.views:
            rows[number] = row(shot, sharp, photo, given.beside)
    blurred, focused = (np.array(gains[k::2]) for k in (0, 1))
    there = blurred[~np.isnan(blurred)]
    print(
        f"sharper than the photo where it is blurred: {int((there > 1).sum())} of {len(there)} photos that are "
        f"blurred, "
        f"by {np.median(there):.2f}× (median; least {there.min():.2f}×); where it is in focus "
        f"{np.nanmedian(focused):.2f}×"
    )
    if given.picture:
        write_image(given.picture, np.concatenate([rows[number] for number in given.views]))


if __name__ == "__main__":
    main()
