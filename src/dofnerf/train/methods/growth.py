"""Growth with a fixed number of Gaussians: the faint move to where the error is (after Kheradmand et al. 2024).

A Gaussian's blame is the squared error of the pixels that it colours, each by its share, from photos in which it is in focus:
blurred photos say little about where detail is missing. A Gaussian that is to be doubled splits: both halves get the opacity
that together lets as much light through as before, and the new one a place drawn from the old one's shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from dofnerf.render.splats.model import SplatModel

_FAINT = 0.02  # opacity below which a Gaussian is as good as gone
_MOST = 0.05  # share of all Gaussians that move at once
_SMALLER = 0.8  # of the sizes of those that split


@dataclass(frozen=True)
class Growth:
    """When to look and when to move, in a run of `total` steps."""

    total: int
    every: int = 100
    look: int = 4

    def looks(self, step: int) -> bool:
        """Whether this step's error is to be remembered."""
        return step % self.look == 0

    def due(self, step: int) -> bool:
        """Whether to move after this step: not at the start, and not when nothing is left to settle."""
        return (step + 1) % self.every == 0 and 0.1 * self.total < step < 0.75 * self.total

    @torch.no_grad()
    def move(self, model: SplatModel, generator: torch.Generator, adam: torch.optim.Adam) -> None:
        """Move the faint, and the least blamed of the rest up to a share, to the most blamed."""
        opacity = torch.sigmoid(model.opacity_logits)
        faint = (opacity < _FAINT).nonzero()[:, 0]
        count = min(len(faint), int(_MOST * len(opacity)))
        blame = torch.where(opacity < _FAINT, 0.0, model.blamed)
        model.blamed.zero_()
        if not count or not bool(blame.sum() > 0):
            return
        gone = faint[torch.randperm(len(faint), generator=generator, device=generator.device)[:count]]
        chosen = torch.multinomial(blame, count, replacement=False, generator=generator)
        both = torch.cat([gone, chosen])
        half = 1 - (1 - opacity[chosen]).clamp(min=1e-4).sqrt()
        spread = model.log_scales[chosen].exp() * torch.randn(count, 3, generator=generator, device=generator.device)
        offset = (model.turns()[chosen] @ spread[..., None])[..., 0]
        for value in model.parameters():
            value[gone] = value[chosen]
            moments = adam.state[value]
            for moment in ("exp_avg", "exp_avg_sq"):
                moments[moment][both] = 0
        model.means[gone] += offset
        model.opacity_logits[both] = torch.logit(half, eps=1e-4).repeat(2)
        model.log_scales[both] += torch.log(torch.tensor(_SMALLER))
