"""Where was each photo focused, and how wide was the lens? A search, by blurring what the field shows sharp.

For each photo, the field's sharp picture and disparity of that view, at a small size, are put through lenses on a grid of
(aperture, focus disparity) and compared with the photo; then on finer grids around the best. Photos that share an aperture
vote: their errors are added, each at its own best focus. What the lens holds already is on every grid, so a search never
makes it worse by its own measure.

The measure is the mean absolute difference. Squares would listen to the worst pixels above all: lamps and rims, where a blurred
picture is least to be trusted. They ask for apertures that are a sixth too small even where the sharp picture is perfect.

A lens must be worth it. While a field still learns, a little blur can bring its view nearer to a photo that is sharp from front
to back, too: by half a per cent of the difference at most where we looked, where true blur of a few pixels gave 5 and more.
A photo of which no lens takes away `_WORTH` gets the smallest aperture. That is no lens to stay near to, so the next search
looks everywhere again.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dofnerf.optics import LearnedLens, scatter, to_display, to_linear
from dofnerf.optics.light import Curve
from dofnerf.train.data import missed

_COARSE = (7, 9)  # apertures, focuses
_ROUNDS = 6
_SMALLEST_BLUR = 0.35  # pixels: from one end of the range to the other, the smallest aperture that is tried
_WORTH = 0.02  # of the difference to a photo: what a lens must take away
BLURS = 0.5  # pixels of blur radius: with less a photo is sharp, and the aperture has almost no gradient
_IN_FOCUS = 1.2  # pixels of blur radius, in the photo
_LARGEST = 0.98  # of the largest aperture: beyond, the logit has no slope left


@dataclass(frozen=True)
class SmallView:
    """What the field shows of a photo's view, and the photo: `sharp` and `photo` (h, w, 3), `disparity` (h, w).

    `scale` is their size as a share of the photo's: apertures shrink by it.
    """

    sharp: Tensor
    disparity: Tensor
    photo: Tensor
    scale: float


@torch.no_grad()
def search_lens(
    lens: LearnedLens,
    views: list[SmallView],
    light: Curve = 2.2,
    aperture: bool = True,
    focus: bool = True,
    coarse: bool = True,
) -> None:
    """Set the lens's values to the best found; one of the two stays as it is if it is not to be learned.

    Without `coarse` the search keeps to the neighbourhood of what the lens holds, unless that blurs nothing.
    """
    bounds = Bounds.of(lens)
    apertures, focuses, groups = lens.aperture.tolist(), lens.focus_disparity.tolist(), lens.groups.tolist()
    blurs = (lens.largest_radius >= BLURS).tolist()
    for group in sorted(set(groups)):
        members = [i for i, g in enumerate(groups) if g == group]
        everywhere = coarse or (aperture and not any(blurs[i] for i in members))
        ratio, width = bounds.ratio, bounds.width
        for turn in range(0 if everywhere else 1, _ROUNDS):
            now = apertures[members[0]]
            tried = bounds.apertures(now, ratio if turn else 0) if aperture else [now]
            best = []
            for i in members:
                places = bounds.focuses(focuses[i], width if turn else 0) if focus else [focuses[i]]
                best.append(_best_focus(views[i], tried, places, light))
            totals = torch.tensor([[error for error, _ in row] for row in best]).sum(0)
            chosen = int(totals.argmin())
            for i, row in zip(members, best, strict=True):
                apertures[i], focuses[i] = tried[chosen], row[chosen][1]
            ratio, width = ratio**0.5, width / 2
        without = sum(_best_focus(views[i], [0.0], [focuses[i]], light)[0][0] for i in members)
        if aperture and float(totals.min()) > (1 - _WORTH) * without:
            for i in members:
                apertures[i] = min(apertures[i], bounds.smallest)
                focuses[i] = (bounds.low + bounds.high) / 2 if focus else focuses[i]
    _set(lens, apertures, focuses)


@dataclass(frozen=True)
class Bounds:
    """Apertures `smallest` to `largest` in steps of a factor, focus disparities `low` to `high` in equal steps."""

    smallest: float
    largest: float
    low: float
    high: float

    @classmethod
    def of(cls, lens: LearnedLens) -> Bounds:
        low, high = (float(end) for end in lens.focus_range)
        margin = 0.02 * (high - low)
        return cls(_SMALLEST_BLUR / (high - low), _LARGEST * float(lens.max_aperture), low + margin, high - margin)

    @property
    def ratio(self) -> float:
        return (self.largest / self.smallest) ** (1 / (_COARSE[0] - 1))

    @property
    def width(self) -> float:
        return (self.high - self.low) / (_COARSE[1] - 1)

    def apertures(self, now: float, ratio: float) -> list[float]:
        """What is there and its neighbours at a `ratio`; with ratio 0, what is there and the whole range."""
        if not ratio:
            return [now, *(self.smallest * self.ratio**k for k in range(_COARSE[0]))]
        return [now, *(min(max(now * ratio**k, self.smallest), self.largest) for k in (-1, 1))]

    def focuses(self, now: float, width: float) -> list[float]:
        """The same for focus disparities, neighbours at a `width`."""
        if not width:
            return [now, *(self.low + self.width * k for k in range(_COARSE[1]))]
        return [now, *(min(max(now + k * width, self.low), self.high) for k in (-1, 1))]


def _best_focus(view: SmallView, apertures: list[float], focuses: list[float], light: Curve) -> list[tuple[float, float]]:
    """(error, focus disparity) of the best focus at each aperture."""
    found, linear = [], to_linear(view.sharp, light)
    for aperture in apertures:
        errors = []
        for focus in focuses:
            blurred = scatter(linear, aperture * view.scale * (focus - view.disparity), light=1)
            errors.append(missed(to_display(blurred, light), view.photo).abs().mean())
        least = int(torch.stack(errors).argmin())
        found.append((float(errors[least]), focuses[least]))
    return found


@torch.no_grad()
def sharp_pixels(view: SmallView, lens: LearnedLens, photo: int) -> Tensor:
    """(h, w) uint8: 1 where the photo is in focus and no blurred neighbour's disc reaches. A ray there needs no lens."""
    radius = (lens.aperture[photo] * view.scale * (lens.focus_disparity[photo] - view.disparity)).abs()
    blurred = radius > _IN_FOCUS * view.scale
    reached = blurred
    for far in range(1, int(radius.max()) + 1):
        sends = (blurred & (radius >= far)).to(radius)[None, None]
        reached = reached | (torch.nn.functional.max_pool2d(sends, 2 * far + 1, stride=1, padding=far)[0, 0] > 0)
    return (~reached).to(torch.uint8)


def _set(lens: LearnedLens, apertures: list[float], focuses: list[float]) -> None:
    fresh = torch.tensor(apertures, device=lens.raw_focus.device) / lens.max_aperture
    lens.raw_aperture[lens.groups] = torch.logit(fresh, eps=1e-4)
    low, high = lens.focus_range
    share = (torch.tensor(focuses, device=lens.raw_focus.device) - low) / (high - low)
    lens.raw_focus.copy_(torch.logit(share, eps=1e-4))
