"""Growth with a fixed number of Gaussians: those that hardly show move to where the error is (after Kheradmand et al.
2024).

Idle are the faint, and those that cover less than a fraction of a pixel in the photos: hidden, or too small. The error
attributed to a Gaussian is the squared error of the pixels that it colours, each by its share, from photos in which it
is in focus: blurred photos say little about where detail is missing. A Gaussian that is to be doubled splits: both
halves get the opacity that together lets as much light through as before, and the new one a place drawn from the old
one's shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dofnerf.models.splat.raster.reference import rotation_matrices

if TYPE_CHECKING:
    from dofnerf.models.adam import Adam
    from dofnerf.models.splat.model import SplatModel

_FAINT = 0.02  # opacity below which a Gaussian is as good as gone
_IDLE = 0.2  # pixels of a photo, on average, below which it is not worth its place
_MOST = 0.05  # share of all Gaussians that move at once
_SMALLER = 0.8  # of the sizes of those that split


@dataclass(frozen=True)
class Growth:
    """When to attribute errors and when to move, in a run of `total` steps, of which `at_once` are taken together.
    `memory` has the `error` (N,) attributed to each Gaussian and its `coverage` (N,) in pixels, since the last move."""

    total: int
    every: int = 100
    sample: int = 4
    at_once: int = 1

    def is_due(self, step: int) -> bool:
        """Whether to attribute this step's error: every few steps between moves, and as long before the first. Of steps
        that are taken together the first is asked for all: processes that differed would wait for each other."""
        return step // self.at_once % self.sample == 0 and self.moves_after(step - step % self.every + self.every - 1)

    def moves_after(self, step: int) -> bool:
        """Whether to move after this step: not at the start, and not when too little time is left to settle."""
        return (step + 1) % self.every == 0 and 0.1 * self.total < step < 0.75 * self.total

    def note(self, share: Tensor, memory: Mapping[str, Tensor]) -> None:
        """Add a step's attributed errors and coverage (N, 2)."""
        memory["error"].add_(share[:, 0])
        memory["coverage"].add_(share[:, 1])

    @torch.no_grad()
    def move(self, model: SplatModel, memory: Mapping[str, Tensor], generator: torch.Generator, adam: Adam) -> None:
        """Move idle Gaussians, up to a share of all, to those with the largest errors."""
        opacity = torch.sigmoid(model.opacity_logits)
        idle = (opacity < _FAINT) | (memory["coverage"] < _IDLE * self.every / self.sample)
        places = idle.nonzero()[:, 0]
        count = min(len(places), int(_MOST * len(opacity)))
        error = torch.where(idle, 0.0, memory["error"])
        memory["error"].zero_()
        memory["coverage"].zero_()
        if not count or not bool(error.sum() > 0):
            return
        gone = places[torch.randperm(len(places), generator=generator, device=generator.device)[:count]]
        chosen = torch.multinomial(error, count, replacement=False, generator=generator)
        both = torch.cat([gone, chosen])
        half = 1 - (1 - opacity[chosen]).clamp(min=1e-4).sqrt()
        spread = model.log_scales[chosen].exp() * torch.randn(count, 3, generator=generator, device=generator.device)
        offset = (rotation_matrices(model.rotations[chosen]) @ spread[..., None])[..., 0]
        for value in model.parameters():
            value[gone] = value[chosen]
            moments = adam.state[value]
            for moment in ("exp_avg", "exp_avg_sq"):
                moments[moment][both] = 0
        model.means[gone] += offset
        model.opacity_logits[both] = torch.logit(half, eps=1e-4).repeat(2)
        model.log_scales[both] += torch.log(torch.tensor(_SMALLER))
