"""The short of it: how good held-out views are, and how far the lens is from the true one, where the truth is known."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dofnerf.evaluate.metrics import psnr
from dofnerf.optics.lens import Lens, inverse
from dofnerf.scenes import Scene
from dofnerf.train import Run


class LensOff(NamedTuple):
    """Mean over the photos: `aperture` relative to the true one, `focus` in disparity, relative to the scene's range of
    it."""

    aperture: float
    focus: float


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


def learned_lenses(run: Run) -> list[Lens]:
    """The lens found for each training photo, in their order; none for a run without one."""
    if not run.has_lens:
        return []
    pairs = zip(run.lens.aperture.tolist(), run.lens.focus_disparity.tolist(), strict=True)
    return [Lens(aperture, inverse(disparity)) for aperture, disparity in pairs]


def lens_off(run: Run, scene: Scene) -> LensOff:
    """How far the learned lens is from the true one."""
    wide, deep = [], []
    for i, aperture, disparity in zip(
        scene.train, run.lens.aperture.tolist(), run.lens.focus_disparity.tolist(), strict=True
    ):
        true = scene.lens(i)
        if true is not None and true.aperture > 0:
            wide.append(abs(aperture / true.aperture - 1))
            deep.append(abs(disparity - true.focus_disparity) / (1 / scene.near - 1 / scene.far))
    return LensOff(float(np.mean(wide)), float(np.mean(deep))) if wide else LensOff(math.nan, math.nan)


def largest_blur(run: Run, scene: Scene) -> list[float]:
    """For each training photo that sees sparse points, the largest blur radius in pixels that its lens gives to one of
    them."""
    depths = (scene.visible(i).depth for i in scene.train)
    pairs = zip(learned_lenses(run), depths, strict=False)
    return [float(np.abs(lens.coc_radius(depth)).max()) for lens, depth in pairs if len(depth)]
