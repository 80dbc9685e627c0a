"""Where was each photo focused, and how wide was the lens? A search, by blurring what the field shows sharp.

For each photo, the field's sharp picture and disparity of that view, at a small size, are put through lenses on a grid
of (aperture, focus disparity) and compared with the photo; then on finer grids around the best. Photos that share an
aperture vote: their errors are added, each at its own best focus. What the lens holds already is on every grid, so a
search never makes it worse by its own measure.

The measure is the mean absolute difference. Squares would listen to the worst pixels above all: lamps and rims, where a
blurred picture is least to be trusted. They ask for apertures that are a sixth too small even where the sharp picture
is perfect.

A lens must be worth it. While a field still learns, a little blur can bring its view nearer to a photo that is sharp
from front to back, too: by half a per cent of the difference at most where we looked, where true blur of a few pixels
gave 5 and more. A photo of which no lens takes away `_WORTH` gets the smallest aperture. That is no lens to stay near
to, so the next search looks everywhere again.

In doubt, one aperture for all. What a single photo tells early, of a field that is still blurred, is little: a wider
lens focused elsewhere looks almost the same, and a photo focused far, whose near things are plain, looks as if it had
no lens. So all photos vote for one aperture, and each takes it unless what it found alone, a lens or none, is nearer to
it by more than `_OWN`. Where photos without a lens are not a few (shallow and sharp ones in turn, say), only those vote
that have one, and `_WORTH` will do for the others to refuse it. From then on each learns its own, held to the others'
by a pull (`apart`) that gives way to what a photo knows better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dofnerf.models.base import BLURS
from dofnerf.models.data import missed
from dofnerf.optics import LearnedLens, scatter, to_display, to_linear
from dofnerf.optics.light import Curve

_COARSE = (7, 9)  # apertures, focuses
_ROUNDS = 6
_SMALLEST_BLUR = 0.35  # pixels: from one end of the range to the other, the smallest aperture that is tried
_WORTH = 0.02  # of the difference to a photo: what a lens must take away
_OWN = 0.05  # of the difference that the aperture of all leaves: what one of its own must take away
_RISES = 1.1  # times the least difference yet: apertures that are wider still are not tried
_MOST = 0.75  # of the photos: if so many have a lens, the others will have one, too
_IN_FOCUS = 1.2  # pixels of blur radius, in the photo
_LIKE = 0.2  # of the logarithm of apertures: the difference at which they are pulled together most
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
    vote: bool = True,
    stuck: bool = False,
) -> None:
    """Set the lens's values to the best found; one of the two stays as it is if it is not to be learned.

    Without `coarse` the search keeps to the neighbourhood of what the lens holds, unless that blurs nothing. Photos may
    `vote` for one aperture, unless it is known which of them share one. If `stuck`, only photos whose lens blurs
    nothing are looked at: the others keep theirs, and have voted.
    """
    bounds, errors = Bounds.of(lens), _Errors(views, light)
    apertures, focuses, groups = lens.aperture.tolist(), lens.focus_disparity.tolist(), lens.groups.tolist()
    blurs = (lens.largest_radius >= BLURS).tolist()

    def look(members: list[int], everywhere: bool, given: float | None = None) -> _Found:
        """The best aperture for these photos, unless it is given, and the best focus of each."""
        now, places = apertures[members[0]] if given is None else given, {i: focuses[i] for i in members}
        ratio, width = bounds.ratio, bounds.width
        for turn in range(0 if everywhere else 1, _ROUNDS):
            tried = bounds.apertures(now, ratio if turn else 0) if aperture and given is None else [now]
            around = {i: bounds.focuses(places[i], width if turn else 0) if focus else [places[i]] for i in members}
            best = [errors.leasts(i, tried, around[i]) for i in members]
            totals = [sum(error for error, _ in column) for column in zip(*best, strict=True)]
            chosen = totals.index(min(totals))
            now, places = tried[chosen], {i: row[chosen][1] for i, row in zip(members, best, strict=True)}
            ratio, width = ratio**0.5, width / 2
        return _Found(now, places, sum(errors.of(i, now, places[i]) for i in members))

    def none(members: list[int]) -> float:
        return sum(errors.of(i, 0.0, 0.0) for i in members)

    together = [[i for i, g in enumerate(groups) if g == group] for group in sorted(set(groups))]
    voting = vote and aperture and len(together) == len(groups)
    known = sorted(apertures[i] for i in range(len(groups)) if stuck and blurs[i])
    together = [members for members in together if not (stuck and any(blurs[i] for i in members))]
    own = [look(members, coarse or (aperture and not any(blurs[i] for i in members))) for members in together]
    sure = [one for one in own if one.error <= (1 - _WORTH) * none(list(one.focuses))]  # whose lens is worth it
    most = len(sure) + len(known) >= _MOST * len(groups)
    voted = known[len(known) // 2] if voting and len(known) > 1 else None
    if voting and not known and len(sure) > 1:
        voted = look([i for one in (own if most else sure) for i in one.focuses], True).aperture
    for found in own:
        members = list(found.focuses)
        chosen = found
        if aperture and found not in sure:
            places = {i: (bounds.low + bounds.high) / 2 if focus else focuses[i] for i in members}
            chosen = _Found(min(found.aperture, bounds.smallest), places, none(members))
        if voted is not None:
            others = look(members, True, voted)
            margin = _OWN if most or found in sure else _WORTH
            chosen = chosen if chosen.error < (1 - margin) * others.error else others
        for i in members:
            apertures[i], focuses[i] = chosen.aperture, chosen.focuses[i]
    _set(lens, apertures, focuses)


@dataclass(frozen=True)
class _Found:
    """One aperture for some photos, the focus disparity of each by its number, and their errors' sum."""

    aperture: float
    focuses: dict[int, float]
    error: float


class _Errors:
    """How far a photo is from its view through a lens; asked twice, it looks once."""

    def __init__(self, views: list[SmallView], light: Curve) -> None:
        self.views, self.light, self.known = views, light, dict[tuple[int, float, float], float]()
        self.linear = [to_linear(view.sharp, light) for view in views]

    def of(self, photo: int, aperture: float, focus: float) -> float:
        key = photo, aperture, focus if aperture else 0.0
        if key not in self.known:
            view = self.views[photo]
            blurred = scatter(self.linear[photo], aperture * view.scale * (focus - view.disparity), light=1)
            self.known[key] = float(missed(to_display(blurred, self.light), view.photo).abs().mean())
        return self.known[key]

    def leasts(self, photo: int, apertures: list[float], focuses: list[float]) -> list[tuple[float, float]]:
        """(error, focus disparity) of the best focus at each aperture. Errors fall and then rise with the aperture: the
        widest, which take longest to draw, are not looked at where errors rise already, and count as the last that
        was."""
        found: list[tuple[float, float]] = []
        best, at, rises = math.inf, 0.0, math.inf
        for aperture in apertures:
            if aperture > rises:
                found.append(found[-1])
                continue
            found.append(min(((self.of(photo, aperture, focus), focus) for focus in focuses), key=lambda pair: pair[0]))
            if found[-1][0] < best:
                best, at = found[-1][0], aperture
            elif aperture > at and found[-1][0] > _RISES * best:
                rises = min(rises, aperture)
        return found


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


def apart(lens: LearnedLens, photos: Tensor) -> Tensor:
    """How unlike the apertures of `photos` (N,) are to the median of all that blur: a scalar, to be kept low.

    About Δ²/2 for small differences Δ of their logarithms, and slower beyond `_LIKE`: the more an aperture is another,
    the less it is pulled (half as much at twice the median). Without it, some of the blur that things have in all
    photos is taken for their own look, and apertures drift apart to make up for it: where focus alternates, one kind of
    photo gets wider ones, the other narrower.
    """
    blurs = lens.largest_radius.detach() >= BLURS
    mine = photos[blurs[photos]]
    if not len(mine):
        return lens.raw_aperture.sum() * 0
    apertures = lens.aperture
    middle = apertures.detach()[blurs].log().quantile(0.5)
    off = (apertures[mine].log() - middle) / _LIKE
    return _LIKE**2 / 2 * torch.log1p(off.square()).mean()


@torch.no_grad()
def sharp_pixels(view: SmallView, lens: LearnedLens, photo: int) -> Tensor:
    """(h, w) uint8: 1 where the photo is in focus and no blurred neighbour's disc reaches. A ray there needs no
    lens."""
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
