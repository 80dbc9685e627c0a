"""What do blur and noise leave of the detail in the photos? By Wiener's filter, the best one that knows mean spectra alone.

    dofnerf bench shallow --out shallow          (or any three runs of one scene whose lens is known)
    python benchmarks/limit.py shallow/cells/demo/splat

Windows of the sharp training photos, their depth from the oracle's run. At each frequency the photos hold the detail S times
what their discs leave of it, H, and white noise of variance N, which is measured: in windows blurred by more than 4 pixels,
at frequencies that such discs leave nothing of. Wiener's filter, told depth, lenses, noise and the mean spectrum of windows
with as much blur, and given all photos as if each of them showed everything, is off by S / (1 + S Σ|H|²/N).

A method that knows more of pictures than their mean spectrum may do better (a preference for few strong edges is such
knowledge), one that must find depth and lens will do worse. What is lost comes on top of noise in the photo that it is compared
with, at the least, and of all of the oracle's own error (which has that noise in it) at the most: two PSNRs, and two shares.
Blur is taken for one of display values, and depth for that of the window's median: rough at lights and at rims.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.special import j1

from dofnerf import scenes
from dofnerf.evaluate.quality import held_out_psnr
from dofnerf.optics.thin_lens import coc_radius_from_disparity
from dofnerf.scenes import Lens, Scene
from dofnerf.train import Run

WINDOW, APART, STEP = 32, 16, 0.5  # pixels, pixels, pixels of blur radius
FINE, STRONG = 0.5, 4.0  # cycles a pixel, and pixels of blur radius: with more of both there is only noise
TAPER = np.hanning(WINDOW)[:, None] * np.hanning(WINDOW)
TAPER /= np.sqrt((TAPER**2).mean())
FREQUENCY = np.hypot(*np.meshgrid(np.fft.fftfreq(WINDOW), np.fft.fftfreq(WINDOW)))


def spectrum(window: np.ndarray) -> np.ndarray:
    """(W, W): the power of a window, mean of the channels; its mean is the window's variance."""
    flat = (window - window.mean((0, 1))) * TAPER[..., None]
    return (np.abs(np.fft.fft2(flat, axes=(0, 1))) ** 2).mean(-1) / WINDOW**2


def left_by_disc(radius: float) -> np.ndarray:
    """(W, W): what a disc leaves of each frequency."""
    x = np.maximum(2 * np.pi * abs(radius) * FREQUENCY, 1e-9)
    return 2 * j1(x) / x


def blur(lens: Lens, disparity: np.ndarray | float) -> np.ndarray | float:
    """The signed blur radius in pixels."""
    return coc_radius_from_disparity(disparity, lens.aperture, 1 / lens.focus_depth)


def windows(scene: Scene, oracle: Run, i: int):
    """Where the windows of view i are, and the disparities in each."""
    disparity = oracle.render(scene.camera(i)).disparity.numpy()
    for y in range(0, disparity.shape[0] - WINDOW + 1, APART):
        for x in range(0, disparity.shape[1] - WINDOW + 1, APART):
            place = slice(y, y + WINDOW), slice(x, x + WINDOW)
            yield place, disparity[place]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", type=Path, help="with the runs pinhole-twin, ours and sharp-oracle")
    parser.add_argument("scene", nargs="?", type=Path)
    parser.add_argument("--noise", type=float, help="deviation of the photos' noise, instead of what is measured")
    given = parser.parse_args()
    scene = scenes.load(given.scene) if given.scene else scenes.demo()
    pinhole, ours, oracle = (
        Run.load(given.cells / name / "seed-0" / "run") for name in ("pinhole-twin", "ours", "sharp-oracle")
    )
    lenses = [scene.lens(i) for i in scene.train]
    if any(lens is None or scene.sharp(i) is None for i, lens in zip(scene.train, lenses, strict=True)):
        raise SystemExit(f"{scene.name}: the true lens and an all-in-focus photo must be known for every training photo")
    if given.noise is not None and not given.noise > 0:
        raise SystemExit(f"--noise must be above 0, found {given.noise:g}")

    noise, found = [], defaultdict(list)
    for i, lens in zip(scene.train, lenses, strict=True):
        photo, sharp = scene.photo(i), scene.sharp(i)
        for place, disparity in windows(scene, oracle, i):
            if np.abs(blur(lens, disparity)).min() > STRONG:
                noise.append(spectrum(photo[place])[FREQUENCY > FINE].mean())
            radii = [abs(blur(one, np.median(disparity))) for one in lenses]
            found[int(min(radii) / STEP)].append((spectrum(sharp[place]), radii))
    if given.noise is None and not noise:
        raise SystemExit(f"{scene.name}: no window is blurred by more than {STRONG:g} pixels all over; give --noise")
    grain = float(np.mean(noise)) if given.noise is None else given.noise**2

    lost = {}
    print(f"{scene.name}: noise of {grain**0.5:.4f} ({len(noise)} windows show nothing else)\n")
    print("| least blur of all photos | share of the windows | detail | what the filter loses |\n|---|---|---|---|")
    for number, inside in sorted(found.items()):
        detail = np.maximum(np.mean([power for power, _ in inside], axis=0) - grain, 0)
        heard = [sum(left_by_disc(radius) ** 2 for radius in radii) / grain for _, radii in inside]
        lost[number] = [float((detail / (1 + detail * one)).mean()) for one in heard]
        share = len(inside) / sum(map(len, found.values()))
        words = (f"{-10 * np.log10(one):.1f} dB" for one in (detail.mean(), np.mean(lost[number])))
        print(f"| {number * STEP:g} to {(number + 1) * STEP:g} px | {share:.2f} | {' | '.join(words)} |")

    twin, got, best = (held_out_psnr(run, scene) for run in (pinhole, ours, oracle))
    total = np.mean([value for row in lost.values() for value in row])
    print(f"\nlost in all {-10 * np.log10(total):.1f} dB")
    ends = {"with noise alone": grain, "with the oracle's own error": 10 ** (-best / 10)}
    print(f"pinhole twin {twin:.2f}, ours {got:.2f}, oracle {best:.2f}: share {(got - twin) / (best - twin):.2f}")
    for name, error in ends.items():
        most = -10 * np.log10(total + error)
        print(f"{name} {most:.2f} dB: share {(most - twin) / (best - twin):.2f}")


if __name__ == "__main__":
    main()
