"""What a lens costs: a training step with one against a pinhole step of as many rays, a view through one against a
sharp view.

Both kinds of step train the same field, with all that belongs to a step. The lens is the scene's true one where known,
so that blur has its true size. Processor time, which other programs disturb little; medians of interleaved rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from dofnerf.models.data import Setting, training_data
from dofnerf.optics.lens import Lens
from dofnerf.scenes import Scene
from dofnerf.train import Run, TrainConfig
from dofnerf.train.learner import Learner
from dofnerf.train.loop import steps_of

PATCH = {"hash": 48, "splat": 48}  # pixels along a side; networks take 32, as the paper's cost experiment does
WARM = {"hash": 150}  # pinhole steps first: until the density grid knows where something is
ROUNDS = {"hash": 100, "splat": 60}  # networks: 3
_FEW = 3


def patch_of(field: str) -> int:
    return PATCH.get(field, 32)


def begun(scene: Scene, config: TrainConfig, patch: int) -> Learner:
    """A learner with the true lens, whose two kinds of step have the same number of rays."""
    if hasattr(config.method, "patch_size"):
        config = config.changed({"method": {"patch_size": patch, "rays": patch * patch}})
    data = training_data(scene, "given", torch.device("cpu"))
    learner = Learner.begin(config, Setting.of(scene, config.lens.share_aperture), scene, data)
    true = [scene.lens(i) for i in scene.train]
    if all(true):
        low, high = learner.lens.focus_range
        with torch.no_grad():
            aperture = torch.tensor([one.aperture for one in true if one]) / learner.lens.max_aperture
            focus = (torch.tensor([one.focus_disparity for one in true if one]) - low) / (high - low)
            learner.lens.raw_aperture.copy_(torch.logit(aperture, eps=1e-4))
            learner.lens.raw_focus.copy_(torch.logit(focus, eps=1e-4))
    return learner


def step_times(learner: Learner, scene: Scene, rounds: int) -> dict[str, float]:
    """Median processor seconds of a pinhole step and of a step by patches."""
    field = learner.config.field
    steps = steps_of(learner, training_data(scene, "given", learner.device))
    pinhole, blurred, *_ = learner.config.method.STAGES
    times: dict[str, list[float]] = {stage: [] for stage in learner.config.method.STAGES}

    def step(stage: str) -> None:
        start = time.process_time()
        steps.before(learner.progress.step, learner.generator)
        learner.update(steps(stage, learner.generator))
        times[stage].append(time.process_time() - start)
        learner.progress.step = 60  # beyond the warm-up of the rate; not the end of a stage

    for _ in range(min(WARM.get(field, 1), 5 * rounds)):
        if field == "hash":
            learner.model.refresh(1 / 16, learner.generator)  # type: ignore[operator]
        step(pinhole)
    step(blurred)
    for taken in times.values():
        taken.clear()
    for _ in range(rounds):
        step(pinhole)
        step(blurred)
    return {"pinhole": median(times[pinhole]), "patches": median(times[blurred])}


def training_cost(scene: Scene, config: TrainConfig) -> dict[str, Any]:
    """Seconds of both kinds of step, and their ratio; `config.method.total` rounds if that is fewer than usual."""
    rounds = max(1, min(ROUNDS.get(config.field, _FEW), config.method.total))
    patch = min(patch_of(config.field), *scene.size)
    found = step_times(begun(scene, config, patch), scene, rounds)
    return {**found, "ratio": found["patches"] / found["pinhole"], "rounds": rounds, "patch": patch}


def rendering_cost(scene: Scene, config: TrainConfig) -> dict[str, Any]:
    """Seconds of a sharp view and of one through the photo's lens by the paper's blur, and their ratio."""
    learner = begun(scene, config, min(patch_of(config.field), *scene.size))
    if config.field == "hash":
        learner.model.refresh(1.0, learner.generator)  # type: ignore[operator]
    run, camera = Run(learner), scene.camera(scene.train[0])
    lens = scene.lens(scene.train[0]) or Lens(
        float(learner.lens.aperture[0].detach()), 2 / (1 / scene.near + 1 / scene.far)
    )
    rounds = max(1, min(ROUNDS.get(config.field, _FEW) // 10 or 1, config.method.total))
    ways: dict[str, Callable[[], Any]] = {
        "sharp": lambda: run.render(camera),
        "lens": lambda: run.render(camera, lens.aperture, lens.focus_depth, layers=1),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for k in range(rounds + 1):
        for name, draw in ways.items():
            start = time.process_time()
            draw()
            if k:  # the first is for warming up
                times[name].append(time.process_time() - start)
    sharp, through = median(times["sharp"]), median(times["lens"])
    return {"sharp": sharp, "lens": through, "ratio": through / sharp, "rounds": rounds}
