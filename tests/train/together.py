"""What the processes of test_workers.py run: tiny trainings by all of them together, their outcomes into files.

    torchrun --nproc-per-node 2 tests/train/together.py FOLDER

Also imported by the test, which runs the same trainings in one process.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch.distributed as dist
from tiny_world import config, scene

from dofnerf import cli
from dofnerf.models.splat import training
from dofnerf.models.splat.growth import Growth
from dofnerf.models.splat.model import SplatModel
from dofnerf.models.volume import VolumeModel, steps
from dofnerf.models.workers import is_first_process
from dofnerf.scenes import DEMO
from dofnerf.train import KeepConfig, checkpoint, loop, preset, train
from dofnerf.train.folder import Recorder

COMMAND = ["--width", "24", "--which-frames", "0", "1", "2", "3", "4", "--hold-every", "0", "--no-search", "--refits"]
COMMAND += ["--pinhole-steps", "2", "--lens-steps", "1", "--lens-ray-steps", "1", "--rays", "33", "--patch-size", "8"]
KEEP = KeepConfig(checkpoint_minutes=1e9, preview_minutes=0)
RESUMED = "splats", "splats, two photos"


def trainings():
    """Name → (scene, config). The batches are odd, and one is smaller than the number of processes."""
    found = config((3, 4, 3), in_focus=0.5, refits=(), search_width=12)
    odd = found.changed({"method": {"rays": 97, "lens_points": 6}})
    given = config(
        (2, 4, 4), in_focus=0.0, refits=(), search=False, noise_free=True, lens_rate=0.3, aperture_consistency=0.05
    )
    points = given.changed({"method": {"depth_weight": 0.5, "depth_rays": 31, "spread_weight": 0.1}})
    layers = config(
        (1, 5, 0), in_focus=0.0, refits=(), search=False, layers=3, share_aperture="all", only_sampled=False
    )
    nerf = config((2, 2, 2), field="nerf", in_focus=0.0, refits=(), search=False)
    return {
        "odd": (scene(), odd),
        "points": (scene(points=True), points),
        "layers": (scene(), layers),
        "nerf": (scene(), nerf),
        "one ray": (scene(), given.changed({"method": {"rays": 1}})),
        "splats": (scene(size=(40, 32)), splats(flatness=0.0)),
        "splats, prior": (scene(size=(40, 32)), splats(flatness=0.0, gradient_prior=0.005)),
        "splats, scattered": (scene(size=(40, 12)), splats(blur="scatter")),
        "splats, two photos": (scene(size=(40, 32)), splats(flatness=0.0, photos_per_step=2)),
        # Batches that begin at odd steps: errors are attributed by both processes, or by none.
        "splats, odd stages": (scene(size=(40, 32)), splats(flatness=0.0, photos_per_step=2, pinhole_steps=7)),
        # One process takes two of them; the last of a stage is alone, and divided into columns.
        "splats, three photos": (scene(size=(40, 32)), splats(flatness=0.0, photos_per_step=3, lens_steps=7)),
    }


def splats(**own):
    """All stages; 32 columns are two tiles for each of two processes, 12 are one and a narrower one."""
    stages = {"pinhole_steps": 6, "lens_steps": 6, "sub_aperture_steps": 12, "sub_apertures": 3}
    lens = {"refits": (0.5,), "search_width": 24, "max_radius": 8.0}
    falls = {"fall": "exponential", "decay": 0.1}  # lower rates make less of rounding
    return preset("fast", "splat").changed({"method": {"splats": 300, **stages, **falls, **own}, "lens": lens})


@dataclass(frozen=True)
class Noting(Growth):
    """Attributes errors in short runs, too, and moves nothing: rounding decides what would move."""

    every: int = 16

    def move(self, *_):
        pass


def watched(world, made, out=None, resume=False):
    """Train; returns the run and each step's (loss, error, rays) as the first process reports them."""
    curve, watch = [], Recorder.watch

    def note(self, learner, outcome):
        curve.append((float(outcome.loss), float(outcome.error), outcome.rays))
        watch(self, learner, outcome)

    Recorder.watch, training.Growth = note, Noting
    try:
        return train(world, made, out=out, resume=resume, keep=KEEP), curve
    finally:
        Recorder.watch, training.Growth = watch, Growth


def interrupted(world, made, out, at):
    """Ctrl-C reaches the first process only, in the middle of a step; all stop, and one checkpoint is left."""
    real = loop.one_step

    def press(learner, steps):
        if learner.progress.step == at and is_first_process():
            os.kill(os.getpid(), signal.SIGINT)
        return real(learner, steps)

    loop.one_step = press
    try:
        train(world, made, out=out, keep=KEEP)
    except KeyboardInterrupt:
        return True
    finally:
        loop.one_step = real
    return False


def poisoned(world, made, at):
    """What the second process alone sees is NaN, once: all go back together."""
    kind, model, way = (
        (training.SplatSteps, SplatModel, "picture")
        if made.field == "splat"
        else (steps.VolumeSteps, VolumeModel, "shade")
    )
    step, see, calls = kind.__call__, getattr(model, way), iter(range(10**6))

    def broken(self, *arguments, **named):
        seen = see(self, *arguments, **named)
        if made.field == "splat":
            return seen._replace(image=seen.image * math.nan)
        return [one._replace(colour=one.colour * math.nan) for one in seen]

    def breaking(self, stage, generator):
        setattr(model, way, broken if next(calls) == at and dist.get_rank() == 1 else see)
        return step(self, stage, generator)

    kind.__call__, training.Growth = breaking, Noting
    try:
        progress = train(world, made, keep=replace(KEEP, checkpoint_minutes=0)).learner.progress
    finally:
        kind.__call__, training.Growth = step, Growth
        setattr(model, way, see)
    return progress.step, progress.recoveries


def refused(world, made, out):
    """The error of each process when the first one finds the folder in use; they part over it, so it comes last."""
    try:
        train(world, made, out=out)
    except (ValueError, OSError) as error:
        return str(error)


def main(folder: Path) -> None:
    rank, said = (
        int(os.environ["RANK"]),
        {"command": cli.main(["train", str(DEMO), "--field", "hash", "--out", str(folder / "command"), *COMMAND])},
    )
    for name, (world, made) in trainings().items():
        run, curve = watched(world, made, folder / name)
        said[name] = curve
        (folder / f"{name}-{rank}.safetensors").write_bytes(checkpoint.pack(run.learner))
    world, made = trainings()["odd"]
    said["interrupted"] = interrupted(world, made, folder / "resumed", at=5)
    said["left at"] = train_left(folder / "resumed")
    run, _ = watched(world, made, folder / "resumed", resume=True)
    (folder / f"resumed-{rank}.safetensors").write_bytes(checkpoint.pack(run.learner))
    for name in RESUMED:
        world, made = trainings()[name]
        said[f"{name}, fewer"] = interrupted(world, made, folder / f"{name}, fewer", at=8)
        _, said[f"{name}, more"] = watched(world, made, folder / f"{name}, more", resume=True)
    world, made = trainings()["odd"]
    said["recovered"] = [
        poisoned(world, made, at=8),
        poisoned(*trainings()["layers"], at=3),
        poisoned(*trainings()["splats, two photos"], at=4),  # a step in which errors are attributed
    ]
    said["used folder"] = refused(world, made, folder / "odd")
    (folder / f"said-{rank}.json").write_text(json.dumps(said))


def train_left(folder: Path) -> int:
    """Where the run in the folder stands."""
    dist.barrier()
    return checkpoint.unpack((folder / checkpoint.FILE).read_bytes()).progress.step


if __name__ == "__main__":
    main(Path(sys.argv[1]))
