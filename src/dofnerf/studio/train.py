"""`dofnerf train`: `train.command`, and the viewer beside it for --live."""

from __future__ import annotations

from dofnerf.train.command import TrainCommand, command_for
from dofnerf.train.command import run as train
from dofnerf.train.run import Run

__all__ = ["command_for", "run"]


def run(config: TrainCommand) -> Run:
    """Train as the config says; returns the run."""
    if not config.live:
        return train(config)
    from dofnerf.studio.live import live

    with live(True, config.training().field):
        return train(config)
