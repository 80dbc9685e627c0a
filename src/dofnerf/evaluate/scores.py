"""The scores of a run: each held-out view, their means, and the error of each photo's lens.

A score is a number, or the words that say why there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import Literal, NamedTuple

import numpy as np
import torch

from dofnerf.camera import Camera
from dofnerf.evaluate import lpips, metrics
from dofnerf.models import View
from dofnerf.models.data import shrunk, shrunk_mask
from dofnerf.optics.lens import Lens
from dofnerf.scenes import Scene
from dofnerf.scenes.source import eroded
from dofnerf.train import Run
from dofnerf.train.registration import Prior, Target, developed, register

Score = float | str
Reference = Literal["sharp", "photo"]
Perceptual = Callable[[np.ndarray, np.ndarray], float]
NO_REFERENCE, NO_LENS, NOWHERE, SMALL = "no reference", "no lens", "nowhere", "too small"
NO_WEIGHTS = "no weights"  # of LPIPS
AS_GIVEN = "as given"  # of a view that is not registered
_WIDEST = 1200  # pixels across of the pictures by which views are registered
_MAY_MOVE = 2.0  # pixels: by how much a held-out view may be off, a standard deviation
IN_FOCUS = 1.0  # pixels: the largest blur radius that counts as in focus


@dataclass(frozen=True)
class ViewScores:
    """One held-out view, rendered with aperture 0. `psnr_registered` is that of the view after its camera and exposure
    were registered to what it is compared with (see `registered`). `in_focus` is the share of its photo that is in
    focus; the scores that follow are those of the pixels in focus and out of focus; `focus_by` names the lens and depth
    used for that."""

    view: int
    name: str
    psnr: Score
    ssim: Score
    lpips: Score
    psnr_registered: Score
    in_focus: Score
    psnr_in_focus: Score
    psnr_out_of_focus: Score
    ssim_in_focus: Score
    ssim_out_of_focus: Score
    focus_by: str


METRICS = tuple(f.name for f in fields(ViewScores) if f.name not in ("view", "name", "focus_by"))


@dataclass(frozen=True)
class LensScores:
    """Errors over `photos` photos whose true lens is known and open, means and medians: `aperture` relative to the true
    one, `focus` in disparity relative to the scene's range, `focus_blur` the same in pixels of blur radius."""

    photos: int
    aperture: float
    aperture_median: float
    focus: float
    focus_median: float
    focus_blur: float
    focus_blur_median: float


@dataclass(frozen=True)
class Scores:
    """Scores of a run. `lens` is words if there is no true lens to compare with. `largest_blur`: the largest blur
    radius in pixels that a photo's lens gives to a sparse point it sees, median and maximum over photos, or words.
    `unknown_lenses`: how many photos do not tell all of their lens; both count them as training left them."""

    views: tuple[ViewScores, ...]
    mean: dict[str, Score]
    lens: LensScores | str
    largest_blur: tuple[float, float] | str
    notes: tuple[str, ...] = ()
    unknown_lenses: int = 0

    def plain(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def score(run: Run, scene: Scene, perceptual: Perceptual | str, reference: Reference = "sharp") -> Scores:
    """Compare every held-out view with its all-in-focus photo, or with the photo itself. `perceptual` is LPIPS, or the
    reason why it is not available."""
    if not scene.test:
        raise ValueError(
            f"{scene.name}: no view is held out, so there is nothing to compare; train with --hold-every 9"
        )
    return gather(run, scene, tuple(score_view(run, scene, i, perceptual, reference) for i in scene.test), perceptual)


def gather(run: Run, scene: Scene, views: tuple[ViewScores, ...], perceptual: Perceptual | str) -> Scores:
    """The scores of a run from those of its views."""
    notes = [f"lpips: {perceptual}"] if isinstance(perceptual, str) else []
    if any(view.psnr == NO_REFERENCE for view in views):
        notes.append(
            "no reference: the scene has no all-in-focus photos of these views; --reference photo takes the photos"
        )
    if any(isinstance(view.psnr_registered, float) for view in views):
        notes.append(
            "registered: training refined cameras or exposures, so each held-out view was also compared after a small "
            "motion of its camera and a gain per channel that fit it best, with the scene held fixed; all other "
            "figures are of views as given"
        )
    blur = largest_blur(run, scene)
    largest = (median(blur), max(blur)) if blur else "no lens" if not run.has_lens else "no sparse points"
    unknown = len(run.unknown_lenses) if run.has_lens else 0
    return Scores(views, means(views), score_lens(run, scene), largest, tuple(notes), unknown)


def score_view(
    run: Run,
    scene: Scene,
    i: int,
    perceptual: Perceptual | str,
    reference: Reference = "sharp",
    shown: View | None = None,
) -> ViewScores:
    """View `i`; `shown` is its render with aperture 0, if there is one already."""
    shown = shown or run.render(scene.camera(i))
    if not bool(shown.image.isfinite().all()):
        raise ValueError(f"{scene.frames[i].name}: its render holds NaN or infinity; the run is broken, train again")
    image, disparity = shown.image.clamp(0, 1).cpu().numpy(), shown.disparity.cpu().numpy()
    truth = scene.sharp(i) if reference == "sharp" else scene.photo(i)
    found: dict[str, Score] = dict.fromkeys(METRICS, NO_REFERENCE)
    focus = in_focus(run, scene, i, disparity)
    counts = scene.mask(i)
    found["in_focus"] = NO_LENS if focus is None else float(focus.mask[... if counts is None else counts].mean())
    if truth is not None:
        if counts is not None:  # what does not count is right, for LPIPS too
            image = np.where(counts[..., None], image, truth)
        found |= {"psnr": _number(metrics.psnr(image, truth, counts)), "ssim": _ssim(image, truth, counts=counts)}
        found["psnr_registered"] = registered_psnr(run, scene.camera(i), truth, counts)
        small = min(image.shape[:2]) < lpips.SMALLEST
        found["lpips"] = NO_WEIGHTS if isinstance(perceptual, str) else SMALL if small else perceptual(image, truth)
        for where, mask in (("in_focus", focus and focus.mask), ("out_of_focus", focus and ~focus.mask)):
            both = mask if mask is None or counts is None else mask & counts
            found[f"psnr_{where}"] = NO_LENS if both is None else _number(metrics.psnr(image, truth, both))
            found[f"ssim_{where}"] = NO_LENS if mask is None else _ssim(image, truth, mask, counts)
    by = "" if focus is None else f"{focus.lens}, {focus.depth}"
    return ViewScores(view=i, name=scene.frames[i].name, **found, focus_by=by)


def registered_psnr(run: Run, camera: Camera, truth: np.ndarray, counts: np.ndarray | None = None) -> Score:
    """PSNR of a view whose camera and exposure are registered to `truth` (H, W, 3): training that moves cameras leaves
    the scene where all of them fit best, and held-out views do not move along. Words if the run moved nothing."""
    learner = run.learner
    if not learner.quantities.registers:
        return AS_GIVEN
    light, photo = run.config.light, torch.from_numpy(truth).to(learner.device)
    mask = None if counts is None else torch.from_numpy(counts).to(learner.device)
    small = camera
    if camera.width > _WIDEST:  # of 12 megapixels, the slopes alone would take 4 GB
        small = camera.resized(_WIDEST, round(camera.height * _WIDEST / camera.width))
        photo = shrunk(photo, small.width, small.height)
        mask = None if mask is None else shrunk_mask(mask.float(), small.width, small.height)
    prior = Prior(small, 2 / sum(run.setting.disparities), _MAY_MOVE * small.width / camera.width)
    found = register(Target(photo, light, mask), run.model.view, small, prior, rounds=5)
    whole = found.camera if small is camera else found.camera.resized(camera.width, camera.height)
    image = developed(run.model.view(whole).image, found.log_gain, light)
    return _number(metrics.psnr(image.cpu().numpy(), truth, counts))


def means(views: Sequence[ViewScores]) -> dict[str, Score]:
    """Mean of each metric over the views that have it; if none has, the first view's reason."""
    found: dict[str, Score] = {}
    for name in METRICS:
        values = [getattr(view, name) for view in views]
        numbers = [value for value in values if not isinstance(value, str)]
        found[name] = float(np.mean(numbers)) if numbers else values[0]
    return found


def score_lens(run: Run, scene: Scene) -> LensScores | str:
    """The learned lenses against the true ones, or why there is nothing to compare."""
    if not run.has_lens:
        return "the run has no lens"
    if run.config.photos == "sharp":
        return "trained on all-in-focus photos"
    aperture, focus, blur = [], [], []
    for i, lens in zip(scene.train, run.lenses, strict=True):
        true = scene.lens(i)
        if true is not None and true.aperture > 0:
            error = abs(lens.focus_disparity - true.focus_disparity)
            aperture.append(abs(lens.aperture / true.aperture - 1))
            focus.append(error / (1 / scene.near - 1 / scene.far))
            blur.append(error * true.aperture)
    if not aperture:
        return "the true lens is not known, or closed"
    return LensScores(
        len(aperture), *(float(summary(values)) for values in (aperture, focus, blur) for summary in (np.mean, median))
    )


class LensError(NamedTuple):
    """Means of `LensScores.aperture` and `.focus`; NaN where the true lens is not known."""

    aperture: float
    focus: float


def lens_error(run: Run, scene: Scene) -> LensError:
    found = score_lens(run, scene)
    return LensError(math.nan, math.nan) if isinstance(found, str) else LensError(found.aperture, found.focus)


def largest_blur(run: Run, scene: Scene) -> list[float]:
    """For each training photo that sees sparse points, the largest blur radius in pixels that its lens gives to one."""
    depths = (scene.visible(i).depth for i in scene.train)
    pairs = zip(run.lenses, depths, strict=False)
    return [float(np.abs(lens.coc_radius(depth)).max()) for lens, depth in pairs if len(depth)]


class Focus(NamedTuple):
    """`mask` (H, W) of the pixels in focus; `lens` and `depth` say in words whose were used."""

    mask: np.ndarray
    lens: str
    depth: str


def in_focus(run: Run, scene: Scene, i: int, disparity: np.ndarray) -> Focus | None:
    """Which pixels of photo `i` are in focus; None if no lens is known.

    Uses the true lens of the photo, else the one learned for the nearest training photo; the true depth, else the run's
    `disparity` (H, W).
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
    lenses = run.lenses
    if not lenses:
        return None, ""
    here = scene.camera(i).position
    nearest = int(np.argmin([np.linalg.norm(scene.camera(k).position - here) for k in scene.train]))
    return lenses[nearest], f"the lens learned for {scene.frames[scene.train[nearest]].name}"


def sharp_view(run: Run, scene: Scene, i: int) -> np.ndarray:
    """View `i` rendered with aperture 0, (H, W, 3) 0..1."""
    return run.render(scene.camera(i)).image.clamp(0, 1).cpu().numpy()


def held_out_psnr(run: Run, scene: Scene) -> float:
    """Mean PSNR of the held-out views, rendered with aperture 0."""
    values = []
    for i in scene.test:
        sharp = scene.sharp(i)
        if sharp is None:
            raise ValueError(f"{scene.name}: there is no all-in-focus photo of the held-out view {i} to compare with")
        values.append(metrics.psnr(sharp_view(run, scene, i), sharp, scene.mask(i)))
    return float(np.mean(values))


def _ssim(
    image: np.ndarray, truth: np.ndarray, mask: np.ndarray | None = None, counts: np.ndarray | None = None
) -> Score:
    """Of windows whose centre is in `mask`, and in which all pixels count."""
    if min(image.shape[:2]) < metrics.WINDOW:
        return SMALL
    if counts is not None:
        whole = eroded(counts, metrics.WINDOW // 2)
        mask = whole if mask is None else mask & whole
    return _number(metrics.ssim(image, truth, mask))


def _number(value: float) -> Score:
    return NOWHERE if math.isnan(value) else value
