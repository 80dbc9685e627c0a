"""A run beside what others made of the same real photos, of which there are no sharp ones.

    python benchmarks/peers.py RUN SCENE PEERS... --width 780 --lpips-weights WEIGHTS.npz

Each of PEERS is a folder with one picture for each of the scene's photos, in the order of their names, of the same
size: the photo's own view, all in focus. The run must have been trained on all photos (`--hold-every 0`). Where a photo
is blurred or in focus is told by the lens that the run found for it, as in `sharper.py`. Means over the photos of

- detail: energy of the differences between neighbours over the photo's, where the photo is blurred (more is sharper);
- detail in focus: the same where it is in focus (1 is right; grain would show here);
- PSNR and LPIPS to the photo where that is in focus (elsewhere LPIPS sees the photo itself).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dofnerf import scenes
from dofnerf.evaluate.lpips import find_weights
from dofnerf.evaluate.metrics import psnr
from dofnerf.files import read_image
from dofnerf.train import Run
from sharper import BLURRED, FEWEST, IN_FOCUS, energy

COLUMNS = "detail", "detail in focus", "PSNR in focus", "LPIPS in focus"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("scene", type=Path)
    parser.add_argument("peers", type=Path, nargs="+")
    parser.add_argument("--width", type=int)
    parser.add_argument("--lpips-weights", type=Path)
    given = parser.parse_args()
    run, scene = Run.load(given.run), scenes.load(given.scene, width=given.width, hold_every=0)
    perceptual = find_weights(given.lpips_weights)
    files = {folder.name: sorted(folder.glob("*.jpg")) + sorted(folder.glob("*.png")) for folder in given.peers}
    for name, found in files.items():
        if len(found) != len(scene.train) or len(run.setting.photos) != len(scene.train):
            raise SystemExit(
                f"{name}: {len(found)} pictures of {len(scene.train)} photos; {len(run.setting.photos)} trained"
            )
    table: dict[str, list[list[float]]] = {name: [] for name in ("ours", *files)}
    for number, (i, lens) in enumerate(zip(scene.train, run.lenses, strict=True)):
        photo, quantities = scene.photo(i), run.learner.quantities
        view = run.render(quantities.camera(scene.camera(i), number))
        shown = quantities.develop(view.image, number).detach().clamp(0, 1).numpy()
        radius = np.abs(lens.coc_radius(1 / np.maximum(view.disparity.numpy(), 1e-6)))
        blurred, focused = radius > BLURRED, radius < IN_FOCUS
        for name, rows in table.items():
            picture = shown if name == "ours" else read_image(files[name][number])
            row = [
                energy(picture)[where].sum() / max(energy(photo)[where].sum(), 1e-12) for where in (blurred, focused)
            ]
            row += [psnr(picture, photo, focused), perceptual(np.where(focused[..., None], picture, photo), photo)]
            known = [blurred, focused, focused, focused]
            rows.append([v if where.mean() > FEWEST else np.nan for v, where in zip(row, known, strict=True)])
    print(f"| | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
    for name, rows in table.items():
        detail, grain, quality, far = np.nanmean(np.array(rows), axis=0)
        print(f"| {name} | {detail:.2f}× | {grain:.2f}× | {quality:.2f} dB | {far:.4f} |")


if __name__ == "__main__":
    main()
