"""The lens of every training photo: found, true where known, and where the search for it started; and a plot of
them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dofnerf.evaluate.quality import learned_lenses
from dofnerf.optics.lens import PINHOLE, Lens, inverse
from dofnerf.scenes import Scene
from dofnerf.train import Run
from dofnerf.train.learner import starting_lens

INK, TRUE, FOUND, START = "#333333", "#2b6cb0", "#dd6b20", "#888888"
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8, 12, 20, 30, 50, 70, 100, 150, 200, 300, 500)


@dataclass(frozen=True)
class PhotoLenses:
    """Of photos with these `numbers` in their scene, which lies between depths `near` and `far`."""

    numbers: tuple[int, ...]
    names: tuple[str, ...]
    found: tuple[Lens, ...]
    true: tuple[Lens | None, ...]
    start: Lens | None
    near: float
    far: float


def photo_lenses(run: Run, scene: Scene) -> PhotoLenses | None:
    """Those of a run; None if it has no lens."""
    if not run.has_lens:
        return None
    first = starting_lens(run.setting, run.config.lens)
    begun = set(zip(first.aperture.tolist(), first.focus_disparity.tolist(), strict=True))
    aperture, disparity = next(iter(begun))
    start = Lens(aperture, inverse(disparity)) if len(begun) == 1 else None
    names, true = zip(*((scene.frames[i].name, scene.lens(i)) for i in scene.train), strict=True)
    if run.config.steps.photos == "sharp":
        true = tuple(lens and PINHOLE for lens in true)
    return PhotoLenses(tuple(scene.train), names, tuple(learned_lenses(run)), true, start, scene.near, scene.far)


def depth_ticks(near: float, far: float) -> list[float]:
    """Round depths within a range, for an axis."""
    inside = [tick for tick in _TICKS if near <= tick <= far]
    return inside[:: max(1, len(inside) // 6)] or [near, far]


def lens_plot(lenses: PhotoLenses, heading: str, start: bool = True) -> np.ndarray:
    """Aperture and focus of each photo, found and true, with `start` where the search began, (H, W, 3) uint8."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), dpi=110, facecolor="white", layout="constrained")
    canvas = FigureCanvasAgg(figure)
    figure.suptitle(heading, fontsize=12, color=INK)
    wide, deep = figure.subplots(1, 2)
    known = [(number, lens) for number, lens in zip(lenses.numbers, lenses.true, strict=True) if lens is not None]
    begun = lenses.start if start else None
    _compare(wide, lenses.numbers, [lens.aperture for lens in lenses.found], [(n, lens.aperture) for n, lens in known])
    if begun is not None:
        wide.axhline(begun.aperture, color=START, linewidth=1, linestyle="--", label="start")
    wide.set_ylim(0, 1.35 * max([1e-6, wide.dataLim.ymax, *([begun.aperture] if begun else [])]))
    wide.set_title("How wide open: aperture", fontsize=11, color=INK)
    wide.set_ylabel("aperture (pixels × scene units)", color=INK)
    limit = lenses.near, lenses.far
    focus = [float(np.clip(lens.focus_depth, *limit)) for lens in lenses.found]
    open_ones = [(n, float(np.clip(lens.focus_depth, *limit))) for n, lens in known if lens.aperture > 0]
    _compare(deep, lenses.numbers, focus, open_ones)
    if begun is not None:
        deep.axhline(begun.focus_depth, color=START, linewidth=1, linestyle="--", label="start")
    deep.set_yscale("log")
    deep.set_ylim(*limit)
    ticks = depth_ticks(*limit)
    deep.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    deep.set_yticks([], minor=True)
    deep.set_title("How far away is sharp: focus", fontsize=11, color=INK)
    deep.set_ylabel("focus depth (scene units; the scene's range)", color=INK)
    for axes in (wide, deep):
        axes.legend(loc="upper right", ncols=3, framealpha=1)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _compare(axes: Any, photos: Sequence[int], found: list[float], true: list[tuple[int, float]]) -> None:
    if true:
        axes.scatter(*zip(*true, strict=True), s=90, facecolors="none", edgecolors=TRUE, linewidths=1.6, label="true")
    axes.scatter(photos, found, s=22, color=FOUND, label="learned", zorder=3)
    axes.set_xlabel("photo", color=INK)
    step = max(2, 2 * round(max(photos) / 30))
    axes.set_xticks(range(0, max(photos) + 1, step))
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.tick_params(colors=INK)
