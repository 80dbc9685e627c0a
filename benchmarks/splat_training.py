"""Training of splats, timed on a trained run: what a lens costs, pixels a second against the paper's nerf, frames,
memory.

    dofnerf train demo --out runs/demo-fast
    python benchmarks/splat_training.py runs/demo-fast                   the scene in the package
    python benchmarks/splat_training.py --photos 60                 memory of something large (also with --preset best)

All kinds of step, and nerf's (of the paper's size, 256 random rays), take turns in one run, so that whatever else the
machine does slows all of them; medians of wall time. A step is all that training does: a photo drawn, loss, gradients,
Adam. Memory is the most that the process ever held, whole (torch and numba alone are about 0.4 GB).
"""

# ruff: noqa: I001  (dofnerf comes before torch: it sets how torch's threads wait)
from __future__ import annotations

import dofnerf

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from fields import trainer

from dofnerf import scenes
from dofnerf.scenes import Frame, Scene
from dofnerf.scenes.source import Resized
from dofnerf.train import Run, preset, train
from dofnerf.models.data import training_data
from dofnerf.train.loop import steps_of

NERF_RAYS = 256


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def steps_of_run(path: Path, rounds: int) -> None:
    """Steps without a lens, with it, with sub-apertures, and of nerf in turn; then frames."""
    run, scene = Run.load(path), scenes.demo()
    learner, data = run.learner, training_data(scene, "given", torch.device("cpu"))
    steps = steps_of(learner, data)
    nerf = trainer("nerf", NERF_RAYS)

    def step(stage: str) -> None:
        learner.update(steps(stage, learner.generator))  # type: ignore[arg-type]

    stages = {"pinhole": "pinhole", "lens": "lens", f"{run.config.method.sub_apertures} sub-apertures": "sub-apertures"}
    times: dict[str, list[float]] = {name: [] for name in (*stages, "nerf")}
    for turn in range(rounds + 1):
        for name, stage in stages.items():
            times[name] += [seconds(lambda stage=stage: step(stage)) for _ in range(6 if turn else 2)]
        if turn % 4 == 0:
            times["nerf"].append(seconds(nerf))
    pixels = data.size[0] * data.size[1]
    middle = {name: statistics.median(values[2 if name != "nerf" else 1 :]) for name, values in times.items()}
    slow = NERF_RAYS / middle["nerf"]
    print("| step | ms | pixels a second | over the paper's nerf | over pinhole |\n|---|---|---|---|---|")
    print(f"| nerf | | {slow:.1f} | | |")
    for name in stages:
        speed = pixels / middle[name]
        over = middle[name] / middle["pinhole"]
        print(f"| {name} | {1e3 * middle[name]:.1f} | {speed:.0f} | {speed / slow:.0f}× | {over:.2f}× |")
    view = scene.camera(scene.test[0]).resized(504, 378)
    frame = statistics.median(seconds(lambda: run.model.view(view)) for _ in range(21))
    print(f"a view of 504 × 378: {1e3 * frame:.1f} ms, {1 / frame:.0f} frames a second")


def enlarged(photos: int, width: int, height: int) -> Scene:
    """The scene in the package, enlarged, its views again and again; only how much memory they take matters."""
    scene, frames = scenes.demo(), []
    for i in range(photos):
        one = scene.frames[scene.train[i % len(scene.train)]]
        photo = Resized(one.photo, width, height)
        frames.append(
            Frame(f"{i}.png", one.camera.resized(width, height), photo, seen=one.seen, seen_error=one.seen_error)
        )
    return replace(scene, frames=tuple(frames), train=tuple(range(photos)), test=())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, help="a run of the scene in the package")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--photos", type=int, help="how many enlarged photos to train on, for memory alone")
    parser.add_argument("--size", type=int, nargs=2, default=(1008, 756))
    parser.add_argument("--splats", type=int, default=200_000)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--preset", default="fast", help="whose number of sub-apertures, for memory alone")
    given = parser.parse_args()
    print(
        f"dofnerf {dofnerf.__version__}, {torch.get_num_threads()} threads, the machine's load {os.getloadavg()[0]:.1f}"
    )
    if given.run:
        steps_of_run(given.run, given.rounds)
    if given.photos:
        config = preset(given.preset)
        own = dict.fromkeys(config.method.STAGES.values(), given.steps) | {"splats": given.splats}
        # The search takes long, and holds small pictures only.
        train(enlarged(given.photos, *given.size), config.changed({"method": own, "lens": {"search": False}}))
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        what = f"{given.photos} photos, {given.size[0]}×{given.size[1]}, {given.splats} Gaussians, {given.preset}"
        print(f"{what}: at most {held:.2f} GB")


if __name__ == "__main__":
    main()
