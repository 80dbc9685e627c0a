"""Curves for TensorBoard, which is optional: loss, PSNR, rays a second and the lenses' range, every few steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dofnerf.files.extras import how_to_install
from dofnerf.train.learner import Learner

FOLDER = "tensorboard"
_EVERY = 10  # steps


class Scalars:
    """Writes into `folder`; what an earlier, interrupted run wrote beyond the `step` at which this one begins is
    dropped."""

    def __init__(self, folder: Path, step: int) -> None:
        self.writer = writer_class()(str(folder), purge_step=step + 1 if step else None)

    def add(self, learner: Learner, loss: float, psnr: float, speed: float) -> None:
        """After a step; `psnr` of the batch, `speed` in rays a second."""
        step, steps = learner.standing.step, learner.config.steps
        if step % _EVERY and step != steps.total:
            return
        values = {"loss": loss, "PSNR of the batch": psnr, "rays per second": speed}
        if steps.stage_of(step - 1) != "pinhole":
            for name, found in (("aperture", learner.lens.aperture), ("focus disparity", learner.lens.focus_disparity)):
                values |= {
                    f"lens/{name}, least": float(found.detach().min()),
                    f"lens/{name}, most": float(found.detach().max()),
                }
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()


def writer_class() -> Any:
    """TensorBoard's writer; ValueError if it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(f"--tensorboard needs the package tensorboard: {how_to_install('tensorboard')}") from None
    return SummaryWriter
