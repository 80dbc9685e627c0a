"""How good a run is where the truth is known: held-out views against all-in-focus photos, the lens against the true one."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dofnerf.scenes import Scene
from dofnerf.train import Run


class LensOff(NamedTuple):
    """Mean over the photos: `aperture` relative to the true one, `focus` in disparity, relative to the scene's range of it."""

    aperture: float
    focus: float


def psnr(image: np.ndarray, truth: np.ndarray) -> float:
    """In dB, of two pictures with values 0..1."""
    error = float(np.square(np.clip(image, 0, 1).astype(np.float64) - truth).mean())
    return -10 * math.log10(max(error, 1e-12))


def sharp_view(run: Run, scene: Scene, i: int) -> np.ndarray:
    """View i as the run sees it with aperture 0, (H, W, 3)."""
    return run.render(scene.camera(i)).image.clamp(0, 1).cpu().numpy()


def held_out_psnr(run: Run, scene: Scene) -> float:
    """Mean over the held-out views of the PSNR of the sharp render."""
    values = []
    for i in scene.test:
        sharp = scene.sharp(i)
        if sharp is None:
            raise ValueError(f"{scene.name}: there is no all-in-focus photo of the held-out view {i} to compare with")
        values.append(psnr(sharp_view(run, scene, i), sharp))
    return float(np.mean(values))


def lens_off(run: Run, scene: Scene) -> LensOff:
    """How far the learned lens is from the true one."""
    wide, deep = [], []
    for i, aperture, disparity in zip(scene.train, run.lens.aperture.tolist(), run.lens.focus_disparity.tolist(), strict=True):
        true = scene.lens(i)
        if true is not None and true.aperture > 0:
            wide.append(abs(aperture / true.aperture - 1))
            deep.append(abs(disparity - 1 / true.focus_depth) / (1 / scene.near - 1 / scene.far))
    return LensOff(float(np.mean(wide)), float(np.mean(deep))) if wide else LensOff(math.nan, math.nan)
