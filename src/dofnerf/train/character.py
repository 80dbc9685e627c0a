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
from scipy.optimize import lsq_linear
from torch import Tensor

from dofnerf.camera import Camera
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
_SHARP = 2.0  # pixels of blur radius in the photo that shows a place best, at which it counts 1 / e
_LEAST = 0.05  # weight of pixels that are compared
_CLEAR = 3.0  # pixels of blur radius, at which a pixel counts half
# Standard deviations of the numbers, a priori.
_PRIOR = np.array([math.inf, math.inf, 0.5, 0.25, math.inf, math.inf, 0.5, math.inf])
_ALIKE = 100  # values whose errors are about the same
_FEWEST = 30  # pixels that are compared, and that are held back: a photo with fewer says nothing
_BLURRED = 2.0  # pixels of blur radius, with less of which a photo shows nothing of the lens's character
_BLADES = (5, 6, 7, 8, 9)
_CLEARLY = 2.0  # standard errors by which the number of blades must explain held-back pixels better than all others
_BLOCK = 16  # pixels: errors of these are independent
_TURNS = 6  # rotations tried, evenly over those that differ
_PAYS = 0.02  # of the squared error of held-back pixels, which a character must take away
_GREY = 1 / 255  # errors below a grey level are those of our own parts of the lens
_BLADES_PAY = 0.005  # the same for blades, of what is left
_STEPS = np.array([0.02, 0.1, 0.05, 0.05, 0.1, 0.1, 0.1, 0.05])  # finite differences of `Trial`'s numbers
# A cat's eye below 0 has its rim behind the diaphragm; for a round lens (e, pupil p) and (-e, p - e) are the same.
_LOW = np.array([-0.3, 0.0, -0.95, -0.6, -math.inf, 0.0, -2.0, 0.0])
_HIGH = np.array([0.3, 20.0, 0.95, 0.6, math.inf, 1.0, 2.0, 20.0])
_ROUND, _ALL = (0, 1, 2, 3, 6, 7), tuple(range(8))  # the numbers that a lens without blades has, and all


class Seen(NamedTuple):
    """Of a photo: its number; the N `pixels` that are compared, by number in a picture of directions `tangents`
    (H, W, 2); there, `views` (3, K, N) through the parts, linear light, and `points` (K, M, 2) of these; `curved`, the
    views' Laplacians; the photo, `target` (N, 3), and `places` (N, 2) in it, columns and rows; by how much each pixel
    counts, `weight`, the `block` that it lies in, and what is `held` back (N,).
    """

    photo: int
    pixels: Tensor
    tangents: Tensor
    views: Tensor
    curved: Tensor
    points: Tensor
    target: Tensor
    places: Tensor
    weight: Tensor
    block: Tensor
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
    """`numbers` (8,): log of the factor, cat's eye in lens radii at 45°, two of the profile, rotation, roundness; a
    variance in pixels² by which the scene is softer than what was photographed; and the pupil."""

    numbers: np.ndarray
    blades: int = 0

    @property
    def shape(self) -> RealLens:
        _, eye, a, b, turn, round_, _, pupil = self.numbers.tolist()
        turn, round_ = (turn, round_) if self.blades else (0.0, 0.0)
        return RealLens(self.blades, round_, eye, (a, b), pupil, rotation=turn)

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
            mine = weights[:, one.pixels]
            light = weighed(mine, one.views)
            if trial.numbers[6]:
                light = light - trial.numbers[6] / 2 * weighed(mine, one.curved)
            image = self.learner.quantities.develop(to_display(light, self.learner.config.light), one.photo, one.places)
            off = residual(image, one.target) * one.weight.sqrt()[:, None]
            parts.append(off[one.held if held else ~one.held].flatten())
        return torch.cat(parts)

    def error(self, trial: Trial, held: bool = False) -> float:
        """Mean squared residual; where it is fitted, with the prior."""
        off = self.off(trial, held)
        error = float(off.square().mean())
        return error if held else error + self.noise * _ALIKE / len(off) * float(np.sum((trial.numbers / _PRIOR) ** 2))

    def blocks(self, trial: Trial) -> Tensor:
        """The sum of squared residuals of each block of held-back pixels."""
        off, sums, at = self.off(trial, True).square(), [], 0
        for one in self.seen:
            block = torch.unique(one.block[one.held], return_inverse=True)[1]
            mine = off[at : at + 3 * len(block)].reshape(-1, 3).sum(1)
            at += mine.numel() * 3
            sums.append(torch.zeros(int(block.max()) + 1).index_add(0, block, mine))
        return torch.cat(sums)

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
            # Within bounds, or numbers that stay at theirs would spoil the step of all others.
            root, room = torch.linalg.cholesky(normal), [end[chosen] - trial.numbers[chosen] for end in (_LOW, _HIGH)]
            right = -torch.linalg.solve_triangular(root, pull[:, None], upper=False)[:, 0]
            wanted = lsq_linear(root.T.numpy(), right.numpy(), (room[0] - 1e-9, room[1] + 1e-9), method="bvls").x
            share, better = 1.0, None
            while better is None and share > 0.1:
                numbers = trial.numbers.copy()
                numbers[chosen] += share * wanted
                numbers = np.clip(numbers, _LOW, _HIGH)
                # Between 0 and the cat's eye: then the opening lies within the lens, of which renders see no more.
                numbers[7] = min(numbers[7], numbers[1])
                tried = trial._replace(numbers=numbers)
                error = self.error(tried)
                better, share = (tried if error < best else None), share / 2
            if better is None:
                break
            won, best, trial = best - error, error, better
            if won < 1e-4 * best:
                break
        return trial


@torch.no_grad()
def fit_character(learner: Learner, data: TrainingData) -> Found | None:
    """The character that explains a run's photos best, from that which it has on; None if the model cannot tell, or no
    photo shows blurred what another shows sharp."""
    seen = look(learner, data)
    if not seen:
        return None
    fit = Fit(learner, seen)
    disc = fit.refined(Trial(np.zeros(8)), (0, 6))
    before = fit.error(disc, held=True)
    now, start = learner.lens.shape, disc
    if isinstance(now, RealLens):
        eye, pupil = (now.cats_eye, now.pupil) if now.cats_eye >= 0 else (-now.cats_eye, now.pupil - now.cats_eye)
        start = Trial(np.array([0, eye, *now.profile, now.rotation, now.roundness, 0, pupil]), now.blades)
    which = _ALL if start.blades else _ROUND
    start = fit.refined(start, which)
    fit.noise = fit.error(start)
    best = fit.refined(start, which)
    round_ = best if not best.blades else fit.refined(disc, _ROUND)
    best = with_blades(fit, round_, best)
    return Found(best.shape, best.factor, disc.factor, before, fit.error(best, held=True))


def with_blades(fit: Fit, start: Trial, now: Trial) -> Trial:
    """From a character without blades, `start`, the same with the number of blades that explains held-back pixels best.
    If no number is clearly better than it, and than all other numbers, `now`, the character that the photos have: a
    wrong number is worse than none, but one that was found earlier stays until another, or none, is clearly better."""
    tried = [start, now] if now.blades else [start]
    for blades in _BLADES:
        if blades == now.blades:
            continue
        wider = -math.log((2 + math.cos(2 * math.pi / blades)) / 3) / 2  # a polygon of the same variance as the disc
        one = start.but(0, min(start.numbers[0] + wider, _HIGH[0]))._replace(blades=blades)
        turns = [one.but(4, 2 * math.pi / blades * k / _TURNS) for k in range(_TURNS)]
        # To the end: what is not there yet looks clearly worse, and a wrong number would seem sure.
        tried.append(fit.refined(min(turns, key=fit.error), _ALL, rounds=10))
    errors = [fit.blocks(one) for one in tried]
    best = min(range(len(tried)), key=lambda k: float(errors[k].mean()))
    for k, other in enumerate(errors):
        won = other - errors[best]
        if k != best and not won.mean() >= _CLEARLY * won.std() / math.sqrt(len(won)):
            return now
    pays = _BLADES_PAY * errors[0].mean() < errors[0].mean() - errors[best].mean()
    return fit.refined(tried[best], _ALL) if pays else start


def look(learner: Learner, data: TrainingData) -> list[Seen]:
    """The most blurred photos through the parts of a lens `_REACH` times as wide as theirs, every `_EVERY` pixels."""
    (tall, wide), radii = data.size, learner.lens.largest_radius.detach()
    width = min(wide, _WIDEST)
    height = max(1, round(tall * width / wide))
    likely = [i for i in radii.argsort(descending=True).tolist() if radii[i] * width / wide >= _BLURRED]
    blocks = torch.arange(-(-height // _BLOCK))[:, None] * width + torch.arange(-(-width // _BLOCK))
    blocks = blocks.repeat_interleave(_BLOCK, 0).repeat_interleave(_BLOCK, 1)[:height, :width]
    across, down = torch.meshgrid(torch.arange(width) + 0.5, torch.arange(height) + 0.5, indexing="xy")
    places = torch.stack([across, down], -1) * (wide / width)
    some, light = slice(None, None, _EVERY), learner.config.light
    found: list[Seen] = []
    cameras = [learner.quantities.camera(one, i).resized(width, height) for i, one in enumerate(data.cameras)]
    for i in likely:
        if len(found) == _PHOTOS:
            break
        camera = cameras[i]
        aperture = float(learner.lens.aperture[i].detach()) * width / wide
        focus = float(learner.lens.focus_disparity[i].detach())
        view = learner.model.view(camera)
        radius = aperture * (focus - view.disparity)
        weight = radius.square() / (radius.square() + _CLEAR**2)
        least = least_blur(learner, cameras, i, view.disparity, width / wide)
        weight = weight * torch.exp(-(least / _SHARP).square())
        mask = data.mask(i)
        if mask is not None:
            weight = weight * (shrunk(mask[..., None], width, height)[..., 0] > 1 - 1e-4)
        pixels = (weight[some, some] > _LEAST).flatten().nonzero()[:, 0]
        held = held_back((height, width))[some, some].flatten()[pixels]
        if min(int(held.sum()), int((~held).sum())) < _FEWEST:
            continue
        parts = learner.model.parts(camera, Lens(_REACH * aperture, focus_disparity=focus), _PARTS)
        if parts is None:
            return []

        def at(values: Tensor, pixels: Tensor = pixels) -> Tensor:
            return values[some, some].flatten(0, 1)[pixels]

        smooth = [smoothed(view) for view in parts.light]
        target = to_display(smoothed(to_linear(data.shrunk(i, width, height), light)), light)
        found.append(
            Seen(
                i,
                pixels,
                torch.from_numpy(camera.tangents()).float()[some, some],
                torch.stack([at(view).T for view in smooth], 1),
                torch.stack([at(laplacian(view)).T for view in smooth], 1),
                parts.points,
                at(target),
                at(places),
                at(weight),
                at(blocks),
                held,
            )
        )
    return found


def least_blur(learner: Learner, cameras: Sequence[Camera], photo: int, disparity: Tensor, scale: float) -> Tensor:
    """(H, W), pixels: of what a photo shows at each pixel, at a `disparity` (H, W), the smallest blur radius in any of
    the photos, whose `cameras` are of that size, `scale` times as large as the photos."""
    camera = cameras[photo]
    across, down = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    depth = 1 / disparity.double().clamp(min=1e-6).cpu().numpy().ravel()
    points = camera.unproject(np.stack([across.ravel(), down.ravel()], -1), depth)
    least = np.full(len(points), math.inf)
    lens = learner.lens
    for other, aperture, focus in zip(cameras, lens.aperture.tolist(), lens.focus_disparity.tolist(), strict=True):
        pixels, away = other.project(points)
        radius = scale * aperture * np.abs(focus - 1 / np.maximum(away, 1e-6))
        least = np.where((away > 0) & other.contains(pixels), np.minimum(least, radius), least)
    return torch.from_numpy(least).reshape(disparity.shape).to(disparity)


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


def weighed(weights: Tensor, views: Tensor) -> Tensor:
    """(N, 3): the sum of K `views` (3, K, N) by `weights` (K, N). A channel at a time: einsum takes twenty times as
    long on a CPU."""
    return torch.stack([(weights * view).sum(0) for view in views], dim=-1)


def weights_of(seen: Seen, trial: Trial) -> Tensor:
    """(K, H · W): the shares of the parts in the picture by a lens of that character."""
    points = seen.points * (_REACH / trial.factor)  # in radii of the trial's lens
    weights = part_weights(trial.shape, points, seen.tangents).flatten(1)
    return weights / weights.sum(0).clamp(min=1e-6)
