"""Training: the two stages, the lens, checkpoints and runs.

run = train(scene, "fast", field="hash", out="run")          # also as dofnerf.train(…)
run = Run.load("run")
run.render(scene.camera(0), aperture=12, focus_depth=2.5).image
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from dofnerf.models.config import LensLearningConfig, RatesConfig, StepsConfig, TrainConfig
from dofnerf.train.folder import KeepConfig
from dofnerf.train.loop import Diverged
from dofnerf.train.presets import pinhole_twin, preset, sharp_oracle, shortened
from dofnerf.train.run import Run
from dofnerf.train.trainer import train

__all__ = [
    "Diverged",
    "KeepConfig",
    "LensLearningConfig",
    "RatesConfig",
    "Run",
    "StepsConfig",
    "TrainConfig",
    "pinhole_twin",
    "preset",
    "sharp_oracle",
    "shortened",
    "train",
]


class _Callable(ModuleType):
    """`dofnerf.train` is this package; called, it is the function, so that `dofnerf.train(scene)` says what it does."""

    def __call__(self, *arguments: Any, **named: Any) -> Run:
        return train(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
