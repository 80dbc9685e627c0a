"""A loss: total variation of what is rendered. One file; nothing else of dofnerf knows it."""

from __future__ import annotations

from dataclasses import dataclass

from dofnerf.train.losses import Loss, register


@dataclass(frozen=True)
class TotalVariationConfig:
    """Rendered pictures are smooth."""

    total_variation: float = 0.0
    """Weight of the mean absolute difference between neighbouring pixels of rendered pictures."""


@register
class TotalVariation(Loss):
    name, Config = "total_variation", TotalVariationConfig

    @classmethod
    def is_on(cls, config):
        return config.total_variation > 0

    def __call__(self, outcome, learner):
        if outcome.shown is None or outcome.shown.ndim != 3:
            return None  # single pixels have no neighbours
        across, down = outcome.shown.diff(dim=1), outcome.shown.diff(dim=0)
        return self.config.total_variation * (across.abs().mean() + down.abs().mean())
