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
from dofnerf.optics import Lens, to_display
from dofnerf.optics.shapes import RealLens, part_weights
from dofnerf.train.learner import Learner
from dofnerf.train.registration import held_back

_PARTS, _REACH = 217, 1.25  # sub-apertures, over so many times the learned radius
_WIDEST, _PHOTOS = 168, 8  # pixels across and number of the photos compared, the most blurred
_EVERY = 2  # pixels
_BLURRED = 2.0  # pixels of blur radius, with less of which a photo shows nothing of the lens's character
_BLADES = (5, 6, 7, 8, 9)
_TURNS = 6  # rotations tried, evenly over those that differ
_PAYS = 0.01  # of the squared error of held-back pixels, which a character must take away
_BLADES_PAY = 0.005  # the same for blades, of what is left
_STEPS = np.array([0.02, 0.1, 0.05, 0.05, 0.1, 0.1])  # finite differences of `Trial`'s numbers
_LOW = np.array([-0.22, -20.0, -0.95, -0.6, -math.inf, 0.0])
_HIGH = np.array([0.22, 20.0, 0.95, 0.6, math.inf, 1.0])


class Seen(NamedTuple):
    """Of a photo: its number; `views` (K, H, W, 3) through the parts, linear light, and `points` (K, M, 2) of these;
    directions `tangents` (H, W, 2); the photo, `target` (H, W, 3), what counts of it, and what is `held` back (H, W).
    """

    photo: int
    views: Tensor
    points: Tensor
    tangents: Tensor
    target: Tensor
    mask: Tensor | None
    held: Tensor


@dataclass(frozen=True)
class Found:
    """A character, the factor of all apertures that belongs to it, and the mean squared error on held-back pixels
    without and with it."""

    shape: RealLens
    factor: float
    before: float
    after: float

    @property
    def pays(self) -> bool:
        return self.after < (1 - _PAYS) * self.before


class Trial(NamedTuple):
    """`numbers` (6,): log of the factor, cat's eye in lens radii at 45°, two of the profile, rotation, roundness."""

    numbers: np.ndarray
    blades: int = 0

    @property
    def shape(self) -> RealLens:
        _, eye, a, b, turn, round_ = self.numbers.tolist()
        return RealLens(self.blades, round_ if self.blades else 0.0, eye, (a, b), rotation=turn if self.blades else 0.0)

    @property
    def factor(self) -> float:
        return math.exp(self.numbers[0])


@torch.no_grad()
def fit_character(learner: Learner, data: TrainingData) -> Found | None:
    """The character that explains a run's photos best; None if the model cannot tell, or no photo is blurred."""
    seen = look(learner, data)
    if not seen:
        return None
    disc = _refined(learner, seen, Trial(np.zeros(6)), (0,))
    before = _error(learner, seen, disc, held=True)
    found = _refined(learner, seen, disc, (0, 1, 2, 3))
    best = found
    for blades in _BLADES:
        turns = [
            replace_number(found, 4, 2 * math.pi / blades * k / _TURNS)._replace(blades=blades) for k in range(_TURNS)
        ]
        start = min(turns, key=lambda one: _error(learner, seen, one))
        one = _refined(learner, seen, start, (0, 1, 2, 3, 4, 5), rounds=3)
        best = min(best, one, key=lambda trial: _error(learner, seen, trial))
    if best.blades and _error(learner, seen, best, True) > (1 - _BLADES_PAY) * _error(learner, seen, found, True):
        best = found
    return Found(best.shape, best.factor, before, _error(learner, seen, best, held=True))


def replace_number(trial: Trial, index: int, value: float) -> Trial:
    """With another value of one number."""
    numbers = trial.numbers.copy()
    numbers[index] = value
    return trial._replace(numbers=numbers)


def look(learner: Learner, data: TrainingData) -> list[Seen]:
    """The most blurred photos through the parts of a lens `_REACH` times as wide as theirs, every `_EVERY` pixels."""
    (tall, wide), radii = data.size, learner.lens.largest_radius.detach()
    width = min(wide, _WIDEST)
    height = max(1, round(tall * width / wide))
    chosen = [i for i in radii.argsort(descending=True)[:_PHOTOS].tolist() if radii[i] * width / wide >= _BLURRED]
    some, found = slice(None, None, _EVERY), []
    for i in chosen:
        camera = learner.quantities.camera(data.cameras[i], i).resized(width, height)
        wider = _REACH * float(learner.lens.aperture[i].detach()) * width / wide
        parts = learner.model.parts(
            camera, Lens(wider, focus_disparity=float(learner.lens.focus_disparity[i].detach())), _PARTS
        )
        if parts is None:
            return []
        mask = data.mask(i)
        counts = None if mask is None else (shrunk(mask[..., None], width, height)[some, some, 0] > 1 - 1e-4).to(mask)
        target = shrunk(data.photos[i], width, height)[some, some]
        tangents = torch.from_numpy(camera.tangents()).float()[some, some]
        held = held_back((height, width))[some, some]
        views = parts.light[:, some, some].contiguous()
        found.append(Seen(i, views, parts.points, tangents, target, counts, held))
    return found


def weights_of(seen: Seen, trial: Trial) -> Tensor:
    """(K, H, W): the shares of the parts in the picture by a lens of that character."""
    points = seen.points * (_REACH / trial.factor)  # in radii of the trial's lens
    weights = part_weights(trial.shape, points, seen.tangents)
    return weights / weights.sum(0).clamp(min=1e-6)


def _off(learner: Learner, seen: Sequence[Seen], trial: Trial, held: bool) -> Tensor:
    """Residuals of all photos at pixels that are held back, or at the others."""
    parts, weights, whose = [], torch.zeros(0), seen[0]
    for one in seen:
        if not len(weights) or not torch.equal(one.tangents, whose.tangents):
            weights, whose = weights_of(one, trial), one
        light = torch.einsum("khw,khwc->hwc", weights, one.views)
        image = learner.quantities.develop(to_display(light, learner.config.light), one.photo)
        off = residual(image, one.target, mask=one.mask)
        parts.append(off[one.held if held else ~one.held].flatten())
    return torch.cat(parts)


def _error(learner: Learner, seen: Sequence[Seen], trial: Trial, held: bool = False) -> float:
    return float(_off(learner, seen, trial, held).square().mean())


def _refined(learner: Learner, seen: Sequence[Seen], trial: Trial, which: Sequence[int], rounds: int = 5) -> Trial:
    """Gauss-Newton over the numbers `which`, with steps halved until they help."""
    best = _error(learner, seen, trial)
    for _ in range(rounds):
        off = _off(learner, seen, trial, False)
        slopes = []
        for k in which:
            step = _STEPS[k] if trial.numbers[k] + _STEPS[k] <= _HIGH[k] else -_STEPS[k]
            slopes.append((_off(learner, seen, replace_number(trial, k, trial.numbers[k] + step), False) - off) / step)
        design = torch.stack(slopes, dim=1).double()
        normal = design.T @ design
        normal += torch.diag(1e-4 * normal.diagonal() + 1e-12)
        wanted = torch.linalg.solve(normal, -design.T @ off.double()).numpy()
        share, better = 1.0, None
        while better is None and share > 0.1:
            numbers = trial.numbers.copy()
            numbers[list(which)] += share * wanted
            tried = trial._replace(numbers=np.clip(numbers, _LOW, _HIGH))
            error = _error(learner, seen, tried)
            better, share = (tried if error < best else None), share / 2
        if better is None:
            break
        won, best, trial = best - error, error, better
        if won < 1e-4 * best:
            break
    return trial
