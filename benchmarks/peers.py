"""A run beside what others made of the same real photos, of which there are no sharp ones.

    python benchmarks/peers.py RUN SCENE PEERS... --width 780 --lpips-weights WEIGHTS.npz [--save FOLDER]

Each of PEERS is a folder with one picture for each of the scene's photos, in the order of their names, of the same
size: the photo's own view, all in focus. The run must have been trained on all photos (`--hold-every 0`). Where a photo
is blurred or in focus is told by the lens that the run found for it, as in `sharper.py`.

Others have poses and exposures of their own, so every picture, ours too, is first fitted to the photo where that is in
focus: by an affine map of the plane and a gain per channel. A picture that is then still below 18 dB shows something
else, and is left out of its row. Means over the photos of

- detail: energy of the differences between neighbours over the photo's, where the photo is blurred (more is sharper);
- detail seen: the same where, besides, some other photo is in focus: what a peer cannot have made up;
- detail in focus: the same where the photo is in focus (1 is right; grain would show here);
- PSNR and LPIPS to the photo where that is in focus (elsewhere LPIPS sees the photo itself).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

from dofnerf import scenes
from dofnerf.evaluate.lpips import find_weights
from dofnerf.evaluate.metrics import psnr
from dofnerf.evaluate.report.gains import sightings
from dofnerf.files import read_image, write_image
from dofnerf.files.progress import track
from dofnerf.train import Run
from sharper import BLURRED, FEWEST, IN_FOCUS, energy

COLUMNS = "pictures", "detail", "detail seen", "detail in focus", "PSNR in focus", "LPIPS in focus"
_SCALES = (4.0, 2.0, 1.0, 0.5)  # pixels of smoothing at half the size, from coarse to fine
_OTHER = 18.0  # dB: below, a picture shows something else


def fitted(picture: np.ndarray, photo: np.ndarray, where: np.ndarray) -> np.ndarray:
    """The picture (H, W, 3) after the affine map and the gains that bring it nearest to the photo in `where` (H, W):
    found at half the size."""
    small, wanted = (_halved(image) for image in (picture, photo))
    inside = _halved(where[..., None])[..., 0] == 1
    move, gain = np.zeros((2, 3)), np.ones(3)
    for scale in _SCALES:
        smooth, goal = (gaussian_filter(image, (scale, scale, 0)) for image in (small, wanted))
        for _ in range(3):
            now, basis = _mapped(smooth, move, 1)
            slopes = np.stack(np.gradient(now, axis=(0, 1)), axis=-1) * gain[:, None] * now.shape[0]
            by_move = (slopes[..., :, None] * basis[:, :, None, None, :]).reshape(*now.shape, 6)
            design = np.concatenate([by_move, now[..., None] * np.eye(3)], axis=-1)[inside].reshape(-1, 9)
            left = (goal - gain * now)[inside].ravel()
            weight = 1 / (1 + (left / (3 * np.median(np.abs(left)) + 1e-3)) ** 2)
            normal = design.T @ (weight[:, None] * design) + 1e-6 * np.eye(9)
            found = np.linalg.solve(normal, design.T @ (weight * left))
            move, gain = move + found[:6].reshape(2, 3), gain + found[6:]
    return (gain * _mapped(picture, move, 3)[0]).clip(0, 1).astype(np.float32)


def _halved(image: np.ndarray) -> np.ndarray:
    height, width = (size // 2 * 2 for size in image.shape[:2])
    return image[:height, :width].reshape(height // 2, 2, width // 2, 2, -1).mean((1, 3))


def _mapped(image: np.ndarray, move: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    """An image (H, W, 3) after an affine map (2, 3) in units of its height, and the factors (H, W, 3) of that."""
    height, width = image.shape[:2]
    rows, columns = np.mgrid[:height, :width].astype(float)
    basis = np.stack([np.ones_like(rows), (rows + 0.5) / height - 0.5, (columns + 0.5) / height - 0.5], axis=-1)
    at = np.stack([rows, columns]) + height * np.einsum("hwk,ik->ihw", basis, move)
    return np.stack([map_coordinates(image[..., c], at, order=order, mode="nearest") for c in range(3)], axis=-1), basis


def seen_in_focus(run: Run, scene: scenes.Scene) -> list[np.ndarray]:
    """For each training photo, where some photo shows what it shows in focus, (H, W) bool."""
    width, height = scene.size[0] // 4, scene.size[1] // 4
    quantities = run.learner.quantities
    cameras = [quantities.camera(scene.camera(i), k).resized(width, height) for k, i in enumerate(scene.train)]
    disparities = [run.render(camera).disparity.numpy() for camera in cameras]
    found = []
    for camera, disparity in track(list(zip(cameras, disparities, strict=True)), label="sightings"):
        focused = sightings(run, scene, (camera, disparity), cameras, disparities)[1] > 0
        rows, columns = (
            np.arange(size) * half // size for size, half in ((scene.size[1], height), (scene.size[0], width))
        )
        found.append(focused[rows[:, None], columns])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("scene", type=Path)
    parser.add_argument("peers", type=Path, nargs="+")
    parser.add_argument("--width", type=int)
    parser.add_argument("--lpips-weights", type=Path)
    parser.add_argument("--save", type=Path, help="a folder for our renders")
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
    photos = list(enumerate(zip(scene.train, run.lenses, seen_in_focus(run, scene), strict=True)))
    for number, (i, lens, seen) in track(photos, label="photos"):
        photo, quantities = scene.photo(i), run.learner.quantities
        view = run.render(quantities.camera(scene.camera(i), number))
        shown = quantities.develop(view.image, number).detach().clamp(0, 1).numpy()
        if given.save is not None:
            write_image(given.save / f"{number:02d}.png", shown)
        radius = np.abs(lens.coc_radius(1 / np.maximum(view.disparity.numpy(), 1e-6)))
        blurred, focused = radius > BLURRED, radius < IN_FOCUS
        places = blurred, blurred & seen, focused
        for name, rows in table.items():
            picture = shown if name == "ours" else read_image(files[name][number])
            fits = fitted(picture, photo, focused)
            row = [energy(picture)[where].sum() / max(energy(photo)[where].sum(), 1e-12) for where in places]
            row += [psnr(fits, photo, focused), perceptual(np.where(focused[..., None], fits, photo), photo)]
            known = [where.mean() > FEWEST and row[3] > _OTHER for where in (*places, focused, focused)]
            rows.append([v if fine else np.nan for v, fine in zip(row, known, strict=True)])
    print(f"| | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
    for name, rows in table.items():
        detail, real, grain, quality, far = np.nanmean(np.array(rows), axis=0)
        count = int(np.isfinite(np.array(rows)[:, 3]).sum())
        print(f"| {name} | {count} | {detail:.2f}× | {real:.2f}× | {grain:.2f}× | {quality:.2f} dB | {far:.4f} |")


if __name__ == "__main__":
    main()
