"""The character of the lens that took all photos of a run: cat's eye, blades, and how bright the opening is towards its
rim; fitted once the scene is known, and kept only if pixels that had no part in the fit agree.

The opening is a weighting of sub-apertures. The view of some photos through each of many parts of the lens is rendered
once, out to a little more than the radius that was learned; a character, and a common factor of all radii, then only
weigh these views. So a picture by any character costs a weighted mean, and it can be searched for: first how bright and
how vignetted, by Gauss-Newton; then blades, each number at several rotations, and Gauss-Newton again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dofnerf.models.data import TrainingData, shrunk
from dofnerf.models.losses import residual
from dofnerf.optics import Lens, to_display, to_linear
from dofnerf.optics.shapes import RealLens, part_weights
from dofnerf.train.learner import Learner
from dofnerf.train.registration import held_back

_PARTS, _REACH = 217, 1.35  # sub-apertures, over so many times the learned radius
_WIDEST, _PHOTOS = 256, 8  # pixels across and number of the photos compared, the most blurred
_EVERY = 3  # pixels
_SMOOTH = 1.0  # pixels: standard deviation of the Gaussian that both pictures are smoothed by, before they are compared
_CLEAR = 3.0  # pixels of blur radius, at which a pixel counts half
_PRIOR = np.array([math.inf, math.inf, 0.5, 0.25, math.inf, math.inf, 0.5])  # standard deviations of the numbers
_ALIKE = 100  # values whose errors are about the same
_BLURRED = 2.0  # pixels of blur radius, with less of which a photo shows nothing of the lens's character
_BLADES = (5, 6, 7, 8, 9)
_REFINED = 2  # of these, the most promising
_TURNS = 6  # rotations tried, evenly over those that differ
_PAYS = 0.02  # of the squared error of held-back pixels, which a character must take away
_GREY = 1 / 255  # errors below a grey level are those of our own parts of the lens
_BLADES_PAY = 0.005  # the same for blades, of what is left
_STEPS = np.array([0.02, 0.1, 0.05, 0.05, 0.1, 0.1, 0.1])  # finite differences of `Trial`'s numbers
_LOW = np.array([-0.3, -20.0, -0.95, -0.6, -math.inf, 0.0, -2.0])
_HIGH = np.array([0.3, 20.0, 0.95, 0.6, math.inf, 1.0, 2.0])


class Seen(NamedTuple):
    """Of a photo: its number; `views` (K, H, W, 3) through the parts, linear light, and `points` (K, M, 2) of these;
    `curved`, the views' Laplacians; directions `tangents` (H, W, 2); the photo, `target` (H, W, 3), by how much each
    pixel counts, `weight`, and what is `held` back (H, W).
    """

    photo: int
    views: Tensor
    curved: Tensor
    points: Tensor
    tangents: Tensor
    target: Tensor
    weight: Tensor
    held: Tensor


@dataclass(frozen=True)
class Found:
    """A character, the factor of all apertures that belongs to it, that which belongs to a disc, and the mean squared
    error on held-back pixels without and with the character."""

    shape: RealLens
    factor: float
    disc_factor: float
    before: float
    after: float

    @property
    def pays(self) -> bool:
        return self.before - self.after > _PAYS * (self.before + _GREY**2)


class Trial(NamedTuple):
    """`numbers` (7,): log of the factor, cat's eye in lens radii at 45°, two of the profile, rotation, roundness; and a
    variance in pixels² by which the scene is softer than what was photographed."""

    numbers: np.ndarray
    blades: int = 0

    @property
    def shape(self) -> RealLens:
        _, eye, a, b, turn, round_, _ = self.numbers.tolist()
        return RealLens(self.blades, round_ if self.blades else 0.0, eye, (a, b), rotation=turn if self.blades else 0.0)

    @property
    def factor(self) -> float:
        return math.exp(self.numbers[0])

    def but(self, index: int, value: float) -> Trial:
        """With another value of one number."""
        numbers = self.numbers.copy()
        numbers[index] = value
        return self._replace(numbers=numbers)


class Fit:
    """Photos through the parts of the lens, and what is compared."""

    def __init__(self, learner: Learner, seen: Sequence[Seen]) -> None:
        self.learner, self.seen = learner, seen
        self.noise = 0.0  # mean squared residual that no character explains: what the prior is weighed against

    def off(self, trial: Trial, held: bool) -> Tensor:
        """Residuals of all photos at pixels that are held back, or at the others."""
        parts, weights, whose = [], torch.zeros(0), self.seen[0]
        for one in self.seen:
            if not len(weights) or not torch.equal(one.tangents, whose.tangents):
                weights, whose = weights_of(one, trial), one
            light = torch.einsum("khw,khwc->hwc", weights, one.views)
            if trial.numbers[6]:
                light = light - trial.numbers[6] / 2 * torch.einsum("khw,khwc->hwc", weights, one.curved)
            image = self.learner.quantities.develop(to_display(light, self.learner.config.light), one.photo)
            off = residual(image, one.target) * one.weight.sqrt()[..., None]
            parts.append(off[one.held if held else ~one.held].flatten())
        return torch.cat(parts)

    def error(self, trial: Trial, held: bool = False) -> float:
        """Mean squared residual; where it is fitted, with the prior."""
        off = self.off(trial, held)
        error = float(off.square().mean())
        return error if held else error + self.noise * _ALIKE / len(off) * float(np.sum((trial.numbers / _PRIOR) ** 2))

    def refined(self, trial: Trial, which: Sequence[int], rounds: int = 5) -> Trial:
        """Gauss-Newton over the numbers `which`, with steps halved until they help."""
        best, chosen = self.error(trial), list(which)
        for _ in range(rounds):
            off = self.off(trial, False)
            slopes = []
            for k in chosen:
                step = _STEPS[k] if trial.numbers[k] + _STEPS[k] <= _HIGH[k] else -_STEPS[k]
                slopes.append((self.off(trial.but(k, trial.numbers[k] + step), False) - off) / step)
            design = torch.stack(slopes, dim=1).double()
            prior = torch.from_numpy(self.noise * _ALIKE / _PRIOR[chosen] ** 2)
            normal = design.T @ design
            normal += torch.diag(1e-4 * normal.diagonal() + 1e-12 + prior)
            pull = design.T @ off.double() + prior * torch.from_numpy(trial.numbers[chosen])
            wanted = torch.linalg.solve(normal, -pull).numpy()
            share, better = 1.0, None
            while better is None and share > 0.1:
                numbers = trial.numbers.copy()
                numbers[chosen] += share * wanted
                tried = trial._replace(numbers=np.clip(numbers, _LOW, _HIGH))
                error = self.error(tried)
                better, share = (tried if error < best else None), share / 2
            if better is None:
                break
            won, best, trial = best - error, error, better
            if won < 1e-4 * best:
                break
        return trial


@torch.no_grad()
def fit_character(learner: Learner, data: TrainingData, blades: bool = True) -> Found | None:
    """The character that explains a run's photos best, from that which it has on; None if the model cannot tell, or no
    photo is blurred. With `blades`, their number is searched for; otherwise it stays."""
    seen = look(learner, data)
    if not seen:
        return None
    fit = Fit(learner, seen)
    disc = fit.refined(Trial(np.zeros(7)), (0, 6))
    before = fit.error(disc, held=True)
    now, start = learner.lens.shape, disc
    if isinstance(now, RealLens):
        start = Trial(np.array([0, now.cats_eye, *now.profile, now.rotation, now.roundness, 0]), now.blades)
    which = (0, 1, 2, 3, 4, 5, 6) if start.blades else (0, 1, 2, 3, 6)
    start = fit.refined(start, which)
    fit.noise = fit.error(start)
    best = fit.refined(start, which)
    if blades:
        round_ = best if not best.blades else fit.refined(disc, (0, 1, 2, 3, 6))
        best = min(best, _with_blades(fit, round_), key=fit.error)
        if best.blades and fit.error(best, True) > (1 - _BLADES_PAY) * fit.error(round_, True):
            best = round_
    return Found(best.shape, best.factor, disc.factor, before, fit.error(best, held=True))


def _with_blades(fit: Fit, start: Trial) -> Trial:
    """The best number of blades, from a character without any on."""
    starts = []
    for blades in _BLADES:
        wider = -math.log((2 + math.cos(2 * math.pi / blades)) / 3) / 2  # a polygon of the same variance as the disc
        one = start.but(0, min(start.numbers[0] + wider, _HIGH[0]))._replace(blades=blades)
        turns = [one.but(4, 2 * math.pi / blades * k / _TURNS) for k in range(_TURNS)]
        starts.append(min(turns, key=fit.error))
    starts = sorted(starts, key=fit.error)[:_REFINED]
    return min((fit.refined(one, (0, 1, 2, 3, 4, 5, 6), rounds=3) for one in starts), key=fit.error)


def look(learner: Learner, data: TrainingData) -> list[Seen]:
    """The most blurred photos through the parts of a lens `_REACH` times as wide as theirs, every `_EVERY` pixels."""
    (tall, wide), radii = data.size, learner.lens.largest_radius.detach()
    width = min(wide, _WIDEST)
    height = max(1, round(tall * width / wide))
    chosen = [i for i in radii.argsort(descending=True)[:_PHOTOS].tolist() if radii[i] * width / wide >= _BLURRED]
    some, found, light = slice(None, None, _EVERY), [], learner.config.light
    for i in chosen:
        camera = learner.quantities.camera(data.cameras[i], i).resized(width, height)
        aperture = float(learner.lens.aperture[i].detach()) * width / wide
        focus = float(learner.lens.focus_disparity[i].detach())
        parts = learner.model.parts(camera, Lens(_REACH * aperture, focus_disparity=focus), _PARTS)
        if parts is None:
            return []
        radius = aperture * (focus - learner.model.view(camera).disparity)
        weight = radius.square() / (radius.square() + _CLEAR**2)
        mask = data.mask(i)
        if mask is not None:
            weight = weight * (shrunk(mask[..., None], width, height)[..., 0] > 1 - 1e-4)
        smooth = [smoothed(view) for view in parts.light]
        target = to_display(smoothed(to_linear(data.shrunk(i, width, height), light)), light)
        found.append(
            Seen(
                i,
                torch.stack([view[some, some] for view in smooth]),
                torch.stack([laplacian(view)[some, some] for view in smooth]),
                parts.points,
                torch.from_numpy(camera.tangents()).float()[some, some],
                target[some, some],
                weight[some, some],
                held_back((height, width))[some, some],
            )
        )
    return found


def smoothed(image: Tensor) -> Tensor:
    """An image (H, W, 3) after a Gaussian of `_SMOOTH` pixels."""
    if not _SMOOTH:
        return image
    reach = math.ceil(3 * _SMOOTH)
    kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / _SMOOTH) ** 2)
    return _filtered(image, (kernel / kernel.sum()).to(image))


def laplacian(image: Tensor) -> Tensor:
    """Of an image (H, W, 3), by neighbouring pixels; borders continue."""
    wide = torch.nn.functional.pad(image.permute(2, 0, 1)[None], (1, 1, 1, 1), mode="replicate")[0].permute(1, 2, 0)
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    return around - 4 * image


def _filtered(image: Tensor, kernel: Tensor) -> Tensor:
    """An image (H, W, 3) filtered along both axes; borders continue."""
    reach = len(kernel) // 2
    planes = torch.nn.functional.pad(image.permute(2, 0, 1)[:, None], (reach,) * 4, mode="replicate")
    planes = torch.nn.functional.conv2d(planes, kernel[None, None, :, None])
    return torch.nn.functional.conv2d(planes, kernel[None, None, None])[:, 0].permute(1, 2, 0)


def weights_of(seen: Seen, trial: Trial) -> Tensor:
    """(K, H, W): the shares of the parts in the picture by a lens of that character."""
    points = seen.points * (_REACH / trial.factor)  # in radii of the trial's lens
    weights = part_weights(trial.shape, points, seen.tangents)
    return weights / weights.sum(0).clamp(min=1e-6)
