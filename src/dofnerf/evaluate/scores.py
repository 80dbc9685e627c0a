"""All the figures of a run: each held-out view's, their means, and how far each photo's lens is from the true one.

A score is a number, or the words that say why there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import Literal

import numpy as np

from dofnerf.evaluate import lpips, metrics
from dofnerf.evaluate.quality import largest_blur, learned_lenses
from dofnerf.evaluate.regions import in_focus
from dofnerf.models import View
from dofnerf.scenes import Scene
from dofnerf.train import Run

Score = float | str
Reference = Literal["sharp", "photo"]
Perceptual = Callable[[np.ndarray, np.ndarray], float]
NO_REFERENCE, NO_LENS, NOWHERE, SMALL = "no reference", "no lens", "nowhere", "too small"
NO_WEIGHTS = "no weights"  # of LPIPS


@dataclass(frozen=True)
class ViewScores:
    """One held-out view, rendered with aperture 0. `in_focus` is the share of its photo that is in focus, and the other
    pairs are the scores of what is and of what is not; `focus_by` says by which lens and depth."""

    view: int
    name: str
    psnr: Score
    ssim: Score
    lpips: Score
    in_focus: Score
    psnr_in_focus: Score
    psnr_out_of_focus: Score
    ssim_in_focus: Score
    ssim_out_of_focus: Score
    focus_by: str


METRICS = tuple(f.name for f in fields(ViewScores) if f.name not in ("view", "name", "focus_by"))


@dataclass(frozen=True)
class LensScores:
    """Errors of the lenses of `photos` photos whose true lens is known and open: `aperture` relative to the true one,
    `focus` in disparity relative to the scene's range of it, `focus_blur` the same in pixels of blur; means and
    medians."""

    photos: int
    aperture: float
    aperture_median: float
    focus: float
    focus_median: float
    focus_blur: float
    focus_blur_median: float


@dataclass(frozen=True)
class Scores:
    """A run's. `lens` are words if the truth is not known; `largest_blur` is the median and the most of what the lens
    claims of the points that photos see, in pixels, or words."""

    views: tuple[ViewScores, ...]
    mean: dict[str, Score]
    lens: LensScores | str
    largest_blur: tuple[float, float] | str
    notes: tuple[str, ...] = ()

    def plain(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def score(run: Run, scene: Scene, perceptual: Perceptual | str, reference: Reference = "sharp") -> Scores:
    """Compare every held-out view with its all-in-focus photo (or the photo itself). `perceptual` is LPIPS, or why
    not."""
    if not scene.test:
        raise ValueError(
            f"{scene.name}: no view is held out, so there is nothing to compare; train with --hold-every 9"
        )
    views = tuple(score_view(run, scene, i, perceptual, reference) for i in scene.test)
    return gather(run, scene, views, perceptual)


def gather(run: Run, scene: Scene, views: tuple[ViewScores, ...], perceptual: Perceptual | str) -> Scores:
    """A run's scores from those of its views."""
    notes = [f"lpips: {perceptual}"] if isinstance(perceptual, str) else []
    if any(view.psnr == NO_REFERENCE for view in views):
        notes.append(
            "no reference: the scene has no all-in-focus photos of these views; --reference photo takes the photos"
        )
    blur = largest_blur(run, scene)
    claimed = (median(blur), max(blur)) if blur else "no lens" if not run.has_lens else "no sparse points"
    return Scores(views, means(views), score_lens(run, scene), claimed, tuple(notes))


def score_view(
    run: Run,
    scene: Scene,
    i: int,
    perceptual: Perceptual | str,
    reference: Reference = "sharp",
    shown: View | None = None,
) -> ViewScores:
    """One view, rendered here if it is not `shown` already."""
    shown = shown or run.render(scene.camera(i))
    if not bool(shown.image.isfinite().all()):
        raise ValueError(
            f"{scene.frames[i].name}: its render holds values that are no numbers; the run is broken, train again"
        )
    image, disparity = shown.image.clamp(0, 1).cpu().numpy(), shown.disparity.cpu().numpy()
    truth = scene.sharp(i) if reference == "sharp" else scene.photo(i)
    found: dict[str, Score] = dict.fromkeys(METRICS, NO_REFERENCE)
    focus = in_focus(run, scene, i, disparity)
    found["in_focus"] = NO_LENS if focus is None else float(focus.mask.mean())
    if truth is not None:
        found |= {"psnr": metrics.psnr(image, truth), "ssim": _ssim(image, truth)}
        small = min(image.shape[:2]) < lpips.SMALLEST
        found["lpips"] = NO_WEIGHTS if isinstance(perceptual, str) else SMALL if small else perceptual(image, truth)
        for where, mask in (("in_focus", focus and focus.mask), ("out_of_focus", focus and ~focus.mask)):
            found[f"psnr_{where}"] = NO_LENS if mask is None else _number(metrics.psnr(image, truth, mask), NOWHERE)
            found[f"ssim_{where}"] = NO_LENS if mask is None else _ssim(image, truth, mask)
    by = "" if focus is None else f"{focus.lens}, {focus.depth}"
    return ViewScores(view=i, name=scene.frames[i].name, **found, focus_by=by)


def means(views: Sequence[ViewScores]) -> dict[str, Score]:
    """Of each metric over the views that have it; else why none has."""
    found: dict[str, Score] = {}
    for name in METRICS:
        values = [getattr(view, name) for view in views]
        numbers = [value for value in values if not isinstance(value, str)]
        found[name] = float(np.mean(numbers)) if numbers else values[0]
    return found


def score_lens(run: Run, scene: Scene) -> LensScores | str:
    """The learned lenses against the true ones, or why not."""
    if not run.has_lens:
        return "the run has no lens"
    if run.config.steps.photos == "sharp":
        return "trained on all-in-focus photos"
    wide, deep, blur = [], [], []
    for i, lens in zip(scene.train, learned_lenses(run), strict=True):
        true = scene.lens(i)
        if true is not None and true.aperture > 0:
            off = abs(lens.focus_disparity - true.focus_disparity)
            wide.append(abs(lens.aperture / true.aperture - 1))
            deep.append(off / (1 / scene.near - 1 / scene.far))
            blur.append(off * true.aperture)
    if not wide:
        return "the true lens is not known, or closed"
    errors = (summary(values) for kind in (wide, deep, blur) for values in (kind,) for summary in (np.mean, median))
    return LensScores(len(wide), *(float(value) for value in errors))


def _ssim(image: np.ndarray, truth: np.ndarray, mask: np.ndarray | None = None) -> Score:
    if min(image.shape[:2]) < metrics.WINDOW:
        return SMALL
    return _number(metrics.ssim(image, truth, mask), NOWHERE)


def _number(value: float, otherwise: str) -> Score:
    return otherwise if math.isnan(value) else value
