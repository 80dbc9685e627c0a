"""Where was each photo focused, and how wide was the lens? A search, by blurring what the field shows sharp.

For each photo, the field's sharp picture and disparity of that view, at a small size, are put through lenses on a grid of
(aperture, focus disparity) and compared with the photo; then on finer grids around the best. Photos that share an aperture
vote: their errors are added, each at its own best focus. What the lens holds already is on every grid, so a search never
makes it worse by its own measure.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dofnerf.optics import LearnedLens, scatter
from dofnerf.optics.light import Curve

_COARSE = (6, 9)  # apertures, focuses
_ROUNDS = 3
_SMALLEST_BLUR = 0.35  # pixels: from one end of the range to the other, the smallest aperture that is tried
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
    lens: LearnedLens, views: list[SmallView], light: Curve = 2.2, aperture: bool = True, focus: bool = True
) -> None:
    """Set the lens's values to the best found; one of the two stays as it is if it is not to be learned."""
    largest = _LARGEST * lens.max_aperture
    smallest = _SMALLEST_BLUR / (lens.focus_high - lens.focus_low)
    margin = 0.02 * (lens.focus_high - lens.focus_low)
    low, high = lens.focus_low + margin, lens.focus_high - margin
    apertures, focuses = lens.aperture.tolist(), lens.focus_disparity.tolist()
    groups = lens.groups.tolist()
    ratio, width = (largest / smallest) ** (1 / (_COARSE[0] - 1)), (high - low) / (_COARSE[1] - 1)
    for turn in range(_ROUNDS):
        if turn == 0:
            wide = torch.logspace(0, 1, _COARSE[0], base=largest / smallest).mul(smallest).tolist()
            deep = torch.linspace(low, high, _COARSE[1]).tolist()
        for group in sorted(set(groups)):
            members = [i for i, g in enumerate(groups) if g == group]
            now = apertures[members[0]]
            if turn:
                wide = [min(now * ratio**k, largest) for k in (-1, 1)]
            tried = [now, *wide] if aperture else [now]
            best = []
            for i in members:
                if turn:
                    deep = [min(max(focuses[i] + k * width, low), high) for k in (-1, 1)]
                best.append(_best_focus(views[i], tried, [focuses[i], *deep] if focus else [focuses[i]], light))
            totals = torch.tensor([[error for error, _ in row] for row in best]).sum(0)
            chosen = int(totals.argmin())
            for i, row in zip(members, best, strict=True):
                apertures[i], focuses[i] = tried[chosen], row[chosen][1]
        ratio, width = ratio**0.5, width / 2
    _set(lens, apertures, focuses)


def _best_focus(view: SmallView, apertures: list[float], focuses: list[float], light: Curve) -> list[tuple[float, float]]:
    """(error, focus disparity) of the best focus at each aperture."""
    found = []
    for aperture in apertures:
        errors = []
        for focus in focuses:
            radius = aperture * view.scale * (focus - view.disparity)
            errors.append((scatter(view.sharp, radius, light=light) - view.photo).square().mean())
        least = int(torch.stack(errors).argmin())
        found.append((float(errors[least]), focuses[least]))
    return found


def _set(lens: LearnedLens, apertures: list[float], focuses: list[float]) -> None:
    device = lens.raw_aperture.device
    fresh = torch.tensor(apertures, device=device) / lens.max_aperture
    lens.raw_aperture[lens.groups] = torch.logit(fresh, eps=1e-4)
    share = (torch.tensor(focuses, device=device) - lens.focus_low) / (lens.focus_high - lens.focus_low)
    lens.raw_focus.copy_(torch.logit(share, eps=1e-4))
