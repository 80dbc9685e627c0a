"""A robust penalty on how much the logarithms of apertures differ.

Without it, some of the blur that things have in all photos is learned as their own colour, and apertures drift to make
up for it: where focus alternates, one kind of photo gets wider ones, the other narrower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import torch
import tyro
from torch import Tensor

from dofnerf.models.base import BLURS
from dofnerf.optics import LearnedLens
from dofnerf.train.losses.base import Loss

if TYPE_CHECKING:
    from dofnerf.models import Outcome
    from dofnerf.train.learner import Learner

_SCALE = 0.2  # of differences between logarithms of apertures: where the pull is strongest


@dataclass(frozen=True)
class ApertureConsistencyConfig:
    """Apertures of photos are similar."""

    aperture_consistency: Annotated[float, tyro.conf.arg(aliases=("--together",))] = 0.0
    """Weight of the robust penalty on differences between photos' apertures (their logarithms); not used where photos
    share apertures."""

    def __post_init__(self) -> None:
        if not 0 <= self.aperture_consistency < math.inf:
            raise ValueError(f"aperture_consistency must be 0 or more, found {self.aperture_consistency}")


class ApertureConsistency(Loss):
    """The penalty for the photos that a step sees through their lens."""

    name, Config, of_parameters = "aperture_consistency", ApertureConsistencyConfig, True

    @classmethod
    def is_on(cls, config: ApertureConsistencyConfig) -> bool:
        return config.aperture_consistency > 0

    def __call__(self, outcome: Outcome, learner: Learner) -> Tensor | None:
        if outcome.through_lens is None or learner.config.lens.share_aperture != "none":
            return None
        return self.config.aperture_consistency * aperture_consistency_loss(learner.lens, outcome.through_lens)


def aperture_consistency_loss(lens: LearnedLens, photos: Tensor) -> Tensor:
    """How much the apertures of `photos` (N,) differ from the median of all that blur: a scalar.

    About Δ²/2 for small differences Δ of their logarithms, and less beyond `_SCALE` (half the pull at twice the
    median), so that a photo with another aperture keeps it.
    """
    blurs = lens.largest_radius.detach() >= BLURS
    mine = photos[blurs[photos]]
    if not len(mine):
        return lens.raw_aperture.sum() * 0
    apertures = lens.aperture
    middle = apertures.detach()[blurs].log().quantile(0.5)
    off = (apertures[mine].log() - middle) / _SCALE
    return _SCALE**2 / 2 * torch.log1p(off.square()).mean()


LOSS = ApertureConsistency
