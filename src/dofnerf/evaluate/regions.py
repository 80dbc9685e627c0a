"""Where the photo of a view is in focus: a lens, and how far away things are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dofnerf.evaluate.quality import learned_lenses
from dofnerf.optics.lens import Lens
from dofnerf.scenes import Scene
from dofnerf.train import Run

IN_FOCUS = 1.0  # pixels of blur radius, at the most


class Focus(NamedTuple):
    """`mask` (H, W) of what is in focus, by whose `lens` and `depth`, in words."""

    mask: np.ndarray
    lens: str
    depth: str


def in_focus(run: Run, scene: Scene, i: int, disparity: np.ndarray) -> Focus | None:
    """Of view i; `disparity` (H, W) as the run sees it, used where nobody knows the depth. None if no lens is known.

    The lens is the true one of the view's own photo; where that is unknown, the one learned for the nearest training
    photo.
    """
    lens, whose = scene.lens(i), "the photo's true lens"
    if lens is None:
        lens, whose = _nearest_lens(run, scene, i)
    if lens is None:
        return None
    true = scene.depth(i)
    depth = 1 / np.maximum(disparity, 1e-9) if true is None else true
    words = "the run's depth" if true is None else "true depth"
    return Focus(np.abs(lens.coc_radius(depth)) <= IN_FOCUS, whose, words)


def _nearest_lens(run: Run, scene: Scene, i: int) -> tuple[Lens | None, str]:
    lenses = learned_lenses(run)
    if not lenses:
        return None, ""
    here = scene.camera(i).position
    nearest = int(np.argmin([np.linalg.norm(scene.camera(k).position - here) for k in scene.train]))
    return lenses[nearest], f"the lens learned for {scene.frames[scene.train[nearest]].name}"
