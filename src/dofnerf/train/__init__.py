"""Training: stages of steps, the search for the lens, what photos learn, checkpoints and runs.

run = train(scene, "fast", field="hash", out="run")          # also as dofnerf.train(…)
run = Run.load("run")
run.render(scene.camera(0), aperture=12, focus_depth=2.5).image

Names are imported when first used: `dofnerf` itself imports this package, and needs no torch for `dofnerf --help`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from dofnerf.scenes import Scene
    from dofnerf.train.config import TrainConfig, on_sharp_photos, preset, shortened, without_lens
    from dofnerf.train.folder import KeepConfig
    from dofnerf.train.loop import Diverged
    from dofnerf.train.photos.lens import LensConfig
    from dofnerf.train.run import Run
    from dofnerf.train.trainer import Device

__all__ = [
    "Diverged", "KeepConfig", "LensConfig", "Run", "TrainConfig", "on_sharp_photos", "preset", "shortened", "train",
    "without_lens",
]  # fmt: skip
_HOMES = {"Diverged": "loop", "KeepConfig": "folder", "LensConfig": "photos.lens", "Run": "run"}


def train(
    scene: Scene,
    preset: str | TrainConfig = "fast",
    field: str | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    device: Device = "auto",
    keep: KeepConfig | None = None,
    quiet: bool = True,
) -> Run:
    """Train on `scene.train`. `preset` is a name, or a whole TrainConfig such as `preset(name, field)` with changes.

    With a folder `out`, the run is kept there and can be resumed exactly; `resume` goes on with what is there, and
    begins if nothing is. Processes that torchrun started train one run together (see `models.workers`); the first one
    writes.
    """
    from dofnerf.train.trainer import start

    return start(scene, preset, field, out, resume, device, keep, quiet)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'config')}"), name)
