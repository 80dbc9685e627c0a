"""A run's folder, which explains itself: config, checkpoint, table of photos, previews, log, and curves if asked
for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dofnerf.files import write_image, write_json
from dofnerf.files.extras import how_to_install
from dofnerf.files.guard import read_bytes
from dofnerf.files.outputs import append, check_no_link, write_text
from dofnerf.files.progress import Progress as Bar
from dofnerf.models import Outcome
from dofnerf.models.data import TrainingData
from dofnerf.scenes import Scene, write_cameras
from dofnerf.train import checkpoint
from dofnerf.train.learner import Learner
from dofnerf.train.loop import NullRecorder
from dofnerf.train.plain import to_plain
from dofnerf.train.run import CAMERAS, Run, views_of

CONFIG, LENS, LOG, PREVIEWS, CURVES = "config.json", "lens.csv", "log.txt", "previews", "tensorboard"
README = """A run of dofnerf.
config.json             every setting, what is known about the scene, and where it was
checkpoint.safetensors  model, lens and optimizer; dofnerf.Run.load(this folder) reads it, `train --resume` goes on
cameras.json            where each photo was taken, and which were held out; `dofnerf render` shows their views
lens.csv                what was learned for each photo: aperture in pixels x scene units (half of the paper's K),
                        focus_depth in scene units; blur radius in pixels = aperture x |1/focus_depth - 1/depth|;
                        _se are standard errors; `dofnerf lens` prints it in real units
previews/               photo | rendered as shot, through the photo's lens | sharp | disparity
log.txt                 step, stage, seconds, PSNR of the batch, rays a second, the range of the lenses
tensorboard/            with --tensorboard: the same as curves
"""
_LONG = 5.0  # seconds of work that are worth a checkpoint before a search for the lens
_WIDEST = 1000  # pixels across of a preview's pictures
_EVERY = 10  # steps between updates of the bar and of curves, which cost a little


@dataclass(frozen=True)
class KeepConfig:
    """What is written while training, and how often."""

    checkpoint_minutes: float = 2.0
    """Minutes between checkpoints; one is always written at the end."""
    preview_minutes: float = 2.0
    """Minutes between preview pictures; 0 for none but the last."""
    log_steps: int = 100
    """Steps between lines of the log."""
    tensorboard: bool = False
    """Also write curves for TensorBoard into the folder: loss, PSNR, rays a second, the range of the lenses."""


_watchers: list[Callable[[Learner, TrainingData, Path | None], None]] = []


@contextmanager
def watched_by(watcher: Callable[[Learner, TrainingData, Path | None], None]) -> Iterator[None]:
    """Call `watcher` after every step that is recorded inside this, with the run's folder."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


class Recorder(NullRecorder):
    """Keeps a run on disk (or, with no folder, its last checkpoint in memory) and shows how it goes."""

    def __init__(self, folder: Path | None, config: KeepConfig, bar: Bar, data: TrainingData) -> None:
        self.folder, self.config, self.bar, self.data = folder, config, bar, data
        self._curves: Any = None
        self._packed = b""
        self.kept_step: int | None = None
        self._kept = self._shown = time.monotonic()
        self._error, self._rays, self._since = 0.0, 0, time.monotonic()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for name in (PREVIEWS, CURVES, LOG):
                check_no_link(folder / name)

    def describe(self, learner: Learner, scene: Scene) -> None:
        """Write what is known before the first step."""
        if self.folder is None:
            return
        write_text(self.folder / "README.txt", README)
        known = {"config": to_plain(learner.config), "setting": to_plain(learner.setting)}
        if scene.origin is not None:
            known["scene"] = to_plain(scene.origin)
        write_json(self.folder / CONFIG, known)
        write_cameras(self.folder / CAMERAS, views_of(scene))
        if self.config.tensorboard:
            # What an interrupted run wrote beyond the step at which this one begins is dropped.
            step = learner.progress.step
            self._curves = writer_class()(str(self.folder / CURVES), purge_step=step + 1 if step else None)

    def is_due(self) -> bool:
        return time.monotonic() - self._kept > 60 * self.config.checkpoint_minutes

    def is_worth_keeping(self) -> bool:
        return time.monotonic() - self._kept > _LONG

    def keep(self, learner: Learner) -> None:
        packed = checkpoint.pack(learner)
        if self.folder is None:
            self._packed = packed
        else:
            checkpoint.write(self.folder / checkpoint.FILE, packed)
            Run(learner).write_photos(self.folder / LENS)
        self._kept = time.monotonic()
        self.kept_step = learner.progress.step

    def last(self) -> bytes:
        return self._packed if self.folder is None else read_bytes(self.folder / checkpoint.FILE)

    def watch(self, learner: Learner, outcome: Outcome) -> None:
        step, own, now = learner.progress.step, learner.config.method, time.monotonic()
        stage, error = own.stage_of(step - 1), float(outcome.error)
        self._error = error if self._error == 0 else 0.95 * self._error + 0.05 * error
        self._rays += outcome.rays
        speed = self._rays / max(now - self._since, 1e-6)
        psnr = -10 * math.log10(max(self._error, 1e-12))
        learned = [one for one in learner.quantities.by_name.values() if stage != "pinhole" or not one.uses_lens]
        if step % _EVERY < own.at_once or step == own.total:
            words = [f"PSNR {psnr:.2f}", f"{speed:,.0f} rays/s", *(one.summary() for one in learned)]
            self.bar.update(step, "  ".join(words), label=stage)
            if self._curves is not None:
                self._draw(step, {"loss": float(outcome.loss), "PSNR of the batch": psnr, "rays per second": speed})
                for one in learned:
                    for name, value in one.values().items():
                        ends = {"least": float(value.detach().min()), "most": float(value.detach().max())}
                        self._draw(step, {f"{one.name}/{name}, {end}": at for end, at in ends.items()})
                self._curves.flush()
        if step % self.config.log_steps < own.at_once or step == own.total:
            low, high = (float(end) for end in learner.lens.aperture.detach().aminmax())
            self._log(
                f"step {step}  {stage}  {learner.progress.seconds:.1f} s  PSNR {psnr:.2f}  {speed:.0f} rays/s"
                + (f"  aperture {low:.4g} to {high:.4g}" if stage != "pinhole" else "")
            )
            self._rays, self._since = 0, now
        often = 60 * self.config.preview_minutes
        if step == own.total or (often and now - self._shown > often):
            self._preview(learner)
            self._shown = time.monotonic()
        for watcher in _watchers:
            watcher(learner, self.data, self.folder)

    def say(self, words: str) -> None:
        self.bar.say(words)
        self._log(words)

    def _draw(self, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._curves.add_scalar(name, value, step)

    def _log(self, line: str) -> None:
        if self.folder is not None:
            append(self.folder / LOG, line + "\n")

    def _preview(self, learner: Learner) -> None:
        """photo | as shot | sharp | disparity, side by side."""
        if self.folder is None:
            return
        number = len(self.data.names) // 2
        camera, run = self.data.cameras[number], Run(learner)
        camera = camera.resized(min(camera.width, _WIDEST))
        photo = self.data.shrunk(number, camera.width, camera.height)
        sharp = learner.model.view(camera)
        shot = run.as_shot(number, camera).image
        low, high = (1 / learner.setting.space.far, 1 / learner.setting.space.near)
        grey = ((sharp.disparity - low) / (high - low)).clamp(0, 1)[..., None].expand_as(sharp.image)
        sheet = np.concatenate([part.cpu().numpy() for part in (photo, shot, sharp.image, grey)], axis=1)
        write_image(self.folder / PREVIEWS / f"step-{learner.progress.step:06d}.png", sheet)


def writer_class() -> Any:
    """TensorBoard's writer; ValueError if it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(f"--tensorboard: {how_to_install('tensorboard')}") from None
    return SummaryWriter
