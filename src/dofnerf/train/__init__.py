"""Training: stages of steps, the search for the lens, what photos learn, checkpoints and runs."""

import sys
from types import ModuleType
from typing import Any

from dofnerf.train.config import TrainConfig, on_sharp_photos, preset, shortened, without_lens
from dofnerf.train.folder import KeepConfig
from dofnerf.train.loop import Diverged
from dofnerf.train.photos.lens import LensConfig
from dofnerf.train.run import Run
from dofnerf.train.trainer import train

__all__ = [
    "Diverged",
    "KeepConfig",
    "LensConfig",
    "Run",
    "TrainConfig",
    "on_sharp_photos",
    "preset",
    "shortened",
    "train",
    "without_lens",
]


class _Callable(ModuleType):
    """`dofnerf.train` is this package; called, it is the function."""

    def __call__(self, *arguments: Any, **named: Any) -> Run:
        return train(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
