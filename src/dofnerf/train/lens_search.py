"""A search for each photo's aperture and focus, by blurring the model's sharp render of its view.

The render and its disparity, at a small size, are put through lenses on a grid of (aperture, focus disparity) and
compared with the photo; then on finer grids around the best. Photos that share an aperture are searched together: their
errors are added, each at its own best focus. The present lens is on every grid, so a search never makes the error
larger. Of a long list of focuses, pictures of half the size choose the few that are compared in full.

The error is the mean absolute difference. Squares would weigh the worst pixels most, lamps and rims, where a blurred
picture is least reliable: they ask for apertures a sixth too small even where the sharp render is perfect.

**A lens must be worth it.** While a scene is still learned, a little blur can bring its render nearer to a photo that
is sharp from front to back: by at most half a per cent of the difference in our measurements, where true blur of a few
pixels gave 5 and more. A photo of which no lens takes away `_WORTH` gets the smallest aperture, and the next search
looks over the whole range again.

**In doubt, one aperture for all.** A single photo says little early on: a wider lens focused elsewhere looks almost the
same, and a photo focused far, whose near things are plain, looks as if it had no lens. So one common aperture is
fitted to all photos, and each takes it unless its own result, a lens or none, leaves an error smaller by more than
`_OWN`. Where photos without a lens are not a few, it is fitted only to those that have one, and the others need only
`_WORTH` to refuse it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dofnerf.models.base import BLURS, Model, NotFinite
from dofnerf.models.data import TrainingData, shrunk, shrunk_mask
from dofnerf.models.losses import residual
from dofnerf.models.workers import ALONE, Workers
from dofnerf.optics import LearnedLens, scatter, to_display, to_linear
from dofnerf.optics.light import Curve
from dofnerf.train.photos.lens import LensConfig

_COARSE = (7, 9)  # apertures, focuses
_ROUNDS = 5
_FEW = 3  # focuses that are compared in full
_LEAST = 32  # pixels across of the pictures of half the size
_SMALLEST_BLUR = 0.35  # pixels: from one end of the range to the other, the smallest aperture that is tried
_WORTH = 0.02  # of the difference to a photo: what a lens must take away
_OWN = 0.05  # of the difference that the aperture of all leaves: what one of its own must take away
_RISES = 1.1  # times the least difference yet: apertures that are wider still are not tried
_MOST = 0.75  # of the photos: if so many have a lens, the others will have one, too
_IN_FOCUS = 1.2  # pixels of blur radius, in the photo: there one ray a pixel, without a lens, does instead of many
_LARGEST = 0.98  # of the largest aperture: beyond, the logit has no slope left
_SMALL = 128  # pixels across, at the least where the photos have them: with less, focus and aperture look alike
FINER = 2  # how much finer than the search looks a view is drawn for it: one ray a pixel has jagged edges


@dataclass(frozen=True)
class SmallView:
    """A photo and the model's render of its view: `sharp` and `photo` (h, w, 3), `disparity` (h, w).

    `scale` is their size as a share of the photo's: apertures shrink by it. `mask` (h, w), if there is one, is 1 where
    the photo counts.
    """

    sharp: Tensor
    disparity: Tensor
    photo: Tensor
    scale: float
    mask: Tensor | None = None


def small_views(model: Model, data: TrainingData, search_width: int, workers: Workers = ALONE) -> list[SmallView]:
    """The view of every photo; each process renders some of them."""
    (tall, wide), count = data.size, len(data.cameras)
    most = min(max(wide // 2, _SMALL), search_width)
    width, finer = min(most, wide), FINER if most < wide else 1
    height = max(1, round(tall * width / wide))
    drawn = torch.zeros(count, height, width, 4, device=data.photos.device)
    for i in range(count)[workers.part(count)]:
        camera = data.cameras[i].resized(finer * width, finer * height)
        shown = model.view(camera)
        surface = model.surface(camera, shown)
        drawn[i] = shrunk(torch.cat([shown.image, surface[..., None]], dim=-1), width, height)
    if not bool(torch.isfinite(workers.add(drawn)).all()):
        raise NotFinite("the field gave a colour or a depth that is not a number")
    found = []
    for i, one in enumerate(drawn):
        photo, mask = data.shrunk(i, width, height), data.mask(i)
        # A pixel counts if all do that it is the mean of.
        counts = None if mask is None else shrunk_mask(mask, width, height).to(photo)
        view = SmallView(one[..., :3].contiguous(), one[..., 3].contiguous(), photo, width / wide, counts)
        found.append(view)
    return found


@torch.no_grad()
def in_focus_mask(view: SmallView, lens: LearnedLens, photo: int) -> Tensor:
    """(h, w) uint8: 1 where the photo is in focus and the disc of no blurred neighbour reaches."""
    radius = (lens.aperture[photo] * view.scale * (lens.focus_disparity[photo] - view.disparity)).abs()
    blurred = radius > _IN_FOCUS * view.scale
    reached = blurred
    for far in range(1, int(radius.max()) + 1):
        sends = (blurred & (radius >= far)).to(radius)[None, None]
        reached = reached | (torch.nn.functional.max_pool2d(sends, 2 * far + 1, stride=1, padding=far)[0, 0] > 0)
    return (~reached).to(torch.uint8)


@dataclass(frozen=True)
class _Found:
    """One aperture for some photos, the focus disparity of each by its number, and the sum of their errors."""

    aperture: float
    focuses: dict[int, float]
    error: float


class LensSearch:
    """The search for the lens of some photos. `config` says what is learned, and whether one aperture is
    preferred; `develop` is how photos show linear light (see `train.photos`). Of several processes, each tries lenses
    for some of the photos, and all find the same."""

    def __init__(
        self,
        lens: LearnedLens,
        views: list[SmallView],
        config: LensConfig,
        light: Curve = 2.2,
        develop: Callable[[Tensor, int], Tensor] = lambda image, photo: image,
        workers: Workers = ALONE,
    ) -> None:
        self.lens, self.config, self.workers = lens, config, workers
        self.bounds, self.errors = Bounds.of(lens), _Errors(views, light, develop)
        self.apertures, self.focuses = lens.aperture.tolist(), lens.focus_disparity.tolist()

    @torch.no_grad()
    def run(self, everywhere: bool = True, unresolved_only: bool = False) -> None:
        """Set the lens to the best found; what is not learned stays as it is.

        Without `everywhere` the search keeps to the neighbourhood of the present lens, unless that blurs nothing. With
        `unresolved_only`, only photos whose lens blurs nothing are searched; the common aperture is then the median of
        the others'.
        """
        learn, groups = self.config.learn_aperture, self.lens.groups.tolist()
        blurs = (self.lens.largest_radius >= BLURS).tolist()
        sharing = [[i for i, g in enumerate(groups) if g == group] for group in sorted(set(groups))]
        shared = self.config.common_aperture and learn and len(sharing) == len(groups)
        known = sorted(self.apertures[i] for i in range(len(groups)) if unresolved_only and blurs[i])
        sharing = [members for members in sharing if not (unresolved_only and any(blurs[i] for i in members))]
        own = self._each(sharing, lambda one: self._best(one, everywhere or (learn and not any(blurs[i] for i in one))))
        worth = [one for one in own if one.error <= (1 - _WORTH) * self._without(list(one.focuses))]
        most = len(worth) + len(known) >= _MOST * len(groups)
        common = known[len(known) // 2] if shared and len(known) > 1 else None
        if shared and not known and len(worth) > 1:
            members = [i for one in (own if most else worth) for i in one.focuses]
            common = self._best(members, True, workers=self.workers).aperture
        shared_lens = own if common is None else self._each(sharing, lambda one: self._best(one, True, common))
        for found, with_common in zip(own, shared_lens, strict=True):
            chosen = found if not learn or found in worth else self._closed(found)
            if common is not None:
                margin = _OWN if most or found in worth else _WORTH
                chosen = chosen if chosen.error < (1 - margin) * with_common.error else with_common
            for i, focus in chosen.focuses.items():
                self.apertures[i], self.focuses[i] = chosen.aperture, focus
        self._set()

    def _each(self, groups: list[list[int]], search: Callable[[list[int]], _Found]) -> list[_Found]:
        """What is found for each group of photos; of several processes, each searches for some groups."""
        mine, count = self.workers.part(len(groups)), len(self.focuses)
        rows = torch.zeros(mine.stop - mine.start, 2 + count, dtype=torch.float64)
        for row, group in zip(rows, groups[mine], strict=True):
            found = search(group)
            row[:2] = torch.tensor([found.aperture, found.error], dtype=torch.float64)
            row[[2 + i for i in group]] = torch.tensor([found.focuses[i] for i in group], dtype=torch.float64)
        told = self.workers.join(rows, len(groups)).tolist()
        return [_Found(row[0], {i: row[2 + i] for i in group}, row[1]) for row, group in zip(told, groups, strict=True)]

    def _best(
        self, members: list[int], everywhere: bool, aperture: float | None = None, workers: Workers = ALONE
    ) -> _Found:
        """The best aperture for these photos, unless it is given, and the best focus of each; `workers`, if it is all
        of them that ask, look at some photos each."""
        bounds, config = self.bounds, self.config
        now = self.apertures[members[0]] if aperture is None else aperture
        places = {i: self.focuses[i] for i in members}
        ratio, width = bounds.ratio, bounds.width
        for turn in range(0 if everywhere else 1, _ROUNDS):
            search = config.learn_aperture and aperture is None
            tried = bounds.apertures(now, ratio if turn else 0) if search else [now]
            around = {
                i: bounds.focuses(places[i], width if turn else 0) if config.learn_focus else [places[i]]
                for i in members
            }
            mine = members[workers.part(len(members))]
            pairs = torch.tensor([self.errors.leasts(i, tried, around[i]) for i in mine], dtype=torch.float64)
            best = workers.join(pairs.reshape(len(mine), len(tried), 2), len(members)).tolist()
            totals = [sum(error for error, _ in column) for column in zip(*best, strict=True)]
            chosen = totals.index(min(totals))
            now, places = tried[chosen], {i: row[chosen][1] for i, row in zip(members, best, strict=True)}
            ratio, width = ratio**0.5, width / 2
        errors = [self.errors.of(i, now, places[i]) for i in members[workers.part(len(members))]]
        return _Found(now, places, sum(workers.join(torch.tensor(errors, dtype=torch.float64), len(members)).tolist()))

    def _without(self, members: list[int]) -> float:
        """The error of these photos without a lens."""
        return sum(self.errors.of(i, 0.0, 0.0) for i in members)

    def _closed(self, found: _Found) -> _Found:
        """The smallest aperture instead of one that is not worth it, focused in the middle."""
        bounds, members = self.bounds, list(found.focuses)
        middle = (bounds.low + bounds.high) / 2
        places = {i: middle if self.config.learn_focus else self.focuses[i] for i in members}
        return _Found(min(found.aperture, bounds.smallest), places, self._without(members))

    def _set(self) -> None:
        lens, device = self.lens, self.lens.raw_focus.device
        fresh = torch.tensor(self.apertures, device=device) / lens.max_aperture
        lens.raw_aperture[lens.groups] = torch.logit(fresh, eps=1e-4)
        low, high = lens.focus_range
        share = (torch.tensor(self.focuses, device=device) - low) / (high - low)
        lens.raw_focus.copy_(torch.logit(share, eps=1e-4))


class _Errors:
    """How far a photo is from its view through a lens; remembered."""

    def __init__(
        self,
        views: list[SmallView],
        light: Curve,
        develop: Callable[[Tensor, int], Tensor],
        least: int = _LEAST,
    ) -> None:
        self.views, self.light, self.develop = views, light, develop
        self.known = dict[tuple[int, str, str], float]()
        self.linear = [to_linear(view.sharp, light) for view in views]
        wide = min((view.photo.shape[1] for view in views), default=0)
        self.half = _Errors([*map(_half, views)], light, develop, wide) if wide >= 2 * least else self

    def of(self, photo: int, aperture: float, focus: float) -> float:
        key = photo, f"{aperture:.6g}", f"{focus if aperture else 0.0:.6g}"  # grids meet but for rounding
        if key not in self.known:
            view = self.views[photo]
            blurred = scatter(self.linear[photo], aperture * view.scale * (focus - view.disparity), light=1)
            shown = to_display(self.develop(blurred, photo), self.light)
            off = residual(shown, view.photo, mask=view.mask).abs().mean()
            self.known[key] = float(off if view.mask is None else off / view.mask.mean().clamp(min=1e-6))
        return self.known[key]

    def leasts(self, photo: int, apertures: list[float], focuses: list[float]) -> list[tuple[float, float]]:
        """(error, focus disparity) of the best focus at each aperture. Errors fall and then rise with the aperture: the
        widest, which take longest, are not tried where errors rise already, and count as the last that was. The first
        focus at the first aperture, the present lens, is always tried."""
        found: list[tuple[float, float]] = []
        best, at, rises = math.inf, 0.0, math.inf
        for aperture in apertures:
            if aperture > rises:
                found.append(found[-1])
                continue
            likely = focuses
            if len(focuses) > _FEW:
                rough = {focus: self.half.of(photo, aperture, focus) for focus in focuses}
                likely = [*sorted(rough, key=rough.__getitem__)[:_FEW], *(focuses[:1] if not found else ())]
            found.append(min(((self.of(photo, aperture, focus), focus) for focus in likely), key=lambda pair: pair[0]))
            if found[-1][0] < best:
                best, at = found[-1][0], aperture
            elif aperture > at and found[-1][0] > _RISES * best:
                rises = min(rises, aperture)
        return found


def _half(view: SmallView) -> SmallView:
    """The same at half the size."""
    height, width = (max(1, count // 2) for count in view.disparity.shape)
    parts = [view.sharp, view.disparity[..., None], view.photo]
    parts += [] if view.mask is None else [view.mask[..., None]]
    small = shrunk(torch.cat(parts, dim=-1), width, height)
    mask = None if view.mask is None else (small[..., 7] > 1 - 1e-4).to(view.mask)
    scale = view.scale * width / view.disparity.shape[1]
    return SmallView(small[..., :3].contiguous(), small[..., 3].contiguous(), small[..., 4:7].contiguous(), scale, mask)


@dataclass(frozen=True)
class Bounds:
    """Apertures `smallest` to `largest` in steps of a factor; focus disparities `low` to `high`, those of the scene, in
    equal steps, and a few up to the `ends` of what the lens can learn."""

    smallest: float
    largest: float
    low: float
    high: float
    ends: tuple[float, float]

    @classmethod
    def of(cls, lens: LearnedLens) -> Bounds:
        (low, high), (least, most) = lens.seen.tolist(), lens.focus_range.tolist()
        margin, rim = 0.03 * (high - low), 0.005 * (most - least)
        ends = least + rim, most - rim  # at the bounds themselves a logit has no slope
        low, high = max(low - margin, ends[0]), min(high + margin, ends[1])
        return cls(_SMALLEST_BLUR / (high - low), _LARGEST * float(lens.max_aperture), low, high, ends)

    @property
    def ratio(self) -> float:
        return (self.largest / self.smallest) ** (1 / (_COARSE[0] - 1))

    @property
    def width(self) -> float:
        return (self.high - self.low) / (_COARSE[1] - 1)

    def apertures(self, now: float, ratio: float) -> list[float]:
        """The present one and its neighbours at a `ratio`; with ratio 0, the present one and the whole range."""
        if not ratio:
            return [now, *(self.smallest * self.ratio**k for k in range(_COARSE[0]))]
        return [now, *(min(max(now * ratio**k, self.smallest), self.largest) for k in (-1, 1))]

    def focuses(self, now: float, width: float) -> list[float]:
        """The same for focus disparities, neighbours at a `width`."""
        if not width:
            beyond = [end + (self.ends[k] - end) * s for k, end in enumerate((self.low, self.high)) for s in (0.5, 1.0)]
            return [now, *(self.low + self.width * k for k in range(_COARSE[1])), *beyond]
        return [now, *(min(max(now + k * width, self.ends[0]), self.ends[1]) for k in (-1, 1))]
