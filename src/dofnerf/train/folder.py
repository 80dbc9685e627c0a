"""A run's folder, which explains itself: config, checkpoint, lens table, previews and log."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dofnerf.files import write_image, write_json
from dofnerf.models import Outcome
from dofnerf.models.data import TrainingData
from dofnerf.optics.lens import inverse
from dofnerf.scenes import Scene, Viewpoint, write_cameras
from dofnerf.train import checkpoint, scalars
from dofnerf.train.learner import Learner
from dofnerf.train.plain import to_plain
from dofnerf.train.progress import Progress
from dofnerf.train.run import Run
from dofnerf.train.scalars import Scalars

CONFIG, CAMERAS, LENS, LOG, PREVIEWS = "config.json", "cameras.json", "lens.csv", "log.txt", "previews"
README = """A run of dofnerf.
config.json             every setting, what is known about the scene, and where it was
checkpoint.safetensors  field, lens and optimizer; dofnerf.Run.load(this folder) reads it, `dofnerf train --resume` goes on
cameras.json            where each photo was taken, and which were held out; `dofnerf render` shows their views
lens.csv                each photo's lens: aperture in pixels x scene units (K = 2 x aperture is the paper's), focus_depth in
                        scene units; blur radius in pixels = aperture x |1/focus_depth - 1/depth|
previews/               photo | as the field sees it through the photo's lens | sharp | disparity, one file a look
log.txt                 step, stage, seconds, PSNR of the batch, rays a second, the lenses' range
tensorboard/            with --tensorboard: the same as curves
"""


@dataclass(frozen=True)
class KeepConfig:
    """What is written on the way, and how often."""

    checkpoint_minutes: float = 2.0
    """Minutes between checkpoints; one is always written at the end."""
    preview_minutes: float = 2.0
    """Minutes between preview pictures; 0 for none but the last."""
    log_steps: int = 100
    """Steps between lines of the log."""
    tensorboard: bool = False
    """Also write curves for TensorBoard into the folder: loss, PSNR, rays a second, the lenses' range."""


class RunFolder:
    """Keeps a run on disk (or, with no folder, in memory) and tells how it goes. A `Keeper` for the loop."""

    def __init__(self, folder: Path | None, config: KeepConfig, progress: Progress, data: TrainingData) -> None:
        self.folder, self.config, self.progress, self.data = folder, config, progress, data
        self._scalars: Scalars | None = None
        self._packed = b""
        self._kept = self._shown = time.monotonic()
        self._error, self._rays, self._since = 0.0, 0, time.monotonic()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            checkpoint.sweep_up(folder)

    def describe(self, learner: Learner, scene: Scene) -> None:
        """Write what is known before the first step."""
        if self.folder is not None:
            (self.folder / "README.txt").write_text(README, encoding="utf-8")
            known = {"config": to_plain(learner.config), "setting": to_plain(learner.setting)}
            if scene.origin is not None:
                known["scene"] = to_plain(scene.origin)
            write_json(self.folder / CONFIG, known)
            held = set(scene.test)
            views = [Viewpoint(frame.name, frame.camera, held_out=i in held) for i, frame in enumerate(scene.frames)]
            write_cameras(self.folder / CAMERAS, views)
            if self.config.tensorboard:
                self._scalars = Scalars(self.folder / scalars.FOLDER, learner.standing.step)

    def due(self) -> bool:
        return time.monotonic() - self._kept > 60 * self.config.checkpoint_minutes

    def keep(self, learner: Learner) -> None:
        packed = checkpoint.pack(learner)
        if self.folder is None:
            self._packed = packed
        else:
            checkpoint.write(self.folder / checkpoint.FILE, packed)
            Run(learner).write_lens(self.folder / LENS)
        self._kept = time.monotonic()

    def last(self) -> bytes:
        return self._packed if self.folder is None else (self.folder / checkpoint.FILE).read_bytes()

    def watch(self, learner: Learner, outcome: Outcome) -> None:
        step, now = learner.standing.step, time.monotonic()
        error = float(outcome.error)
        self._error = error if self._error == 0 else 0.95 * self._error + 0.05 * error
        self._rays += outcome.rays
        speed = self._rays / max(now - self._since, 1e-6)
        psnr = -10 * math.log10(max(self._error, 1e-12))
        self.progress.show(learner, psnr, speed)
        if self._scalars is not None:
            self._scalars.add(learner, float(outcome.loss), psnr, speed)
        if step % self.config.log_steps == 0 or step == learner.config.steps.total:
            stage = learner.config.steps.stage_of(step - 1)
            low, high = lens_spread(learner)
            self._log(
                f"step {step}  {stage}  {learner.standing.seconds:.1f} s  PSNR {psnr:.2f}  {speed:.0f} rays/s"
                + (f"  aperture {low:.4g} to {high:.4g}" if stage != "pinhole" else "")
            )
            self._rays, self._since = 0, now
        often = 60 * self.config.preview_minutes
        if step == learner.config.steps.total or (often and now - self._shown > often):
            self._look(learner)
            self._shown = time.monotonic()

    def say(self, words: str) -> None:
        self.progress.say(words)
        self._log(words)

    def _log(self, line: str) -> None:
        if self.folder is not None:
            with open(self.folder / LOG, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    def _look(self, learner: Learner) -> None:
        """photo | through its lens | sharp | disparity, side by side."""
        if self.folder is None:
            return
        number = len(self.data.names) // 2
        photo, camera, run = self.data.photos[number], self.data.cameras[number], Run(learner)
        sharp = learner.model.view(camera)
        blurred = sharp.image
        if run.has_lens:
            with torch.no_grad():
                aperture, focus = float(learner.lens.aperture[number]), float(learner.lens.focus_disparity[number])
            blurred = run.render(camera, aperture, inverse(focus)).image
        low, high = (1 / learner.setting.space.far, 1 / learner.setting.space.near)
        grey = ((sharp.disparity - low) / (high - low)).clamp(0, 1)[..., None].expand_as(sharp.image)
        sheet = np.concatenate([part.cpu().numpy() for part in (photo, blurred, sharp.image, grey)], axis=1)
        write_image(self.folder / PREVIEWS / f"step-{learner.standing.step:06d}.png", sheet)


def lens_spread(learner: Learner) -> tuple[float, float]:
    """The smallest and the largest aperture."""
    values = learner.lens.aperture.detach()
    return float(values.min()), float(values.max())
