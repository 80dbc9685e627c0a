"""What a lens costs: a training step by patches, blurred, against a pinhole step with as many rays. One run, taking turns.

    python benchmarks/cost.py                                     hash (patches of 48) and the paper's nerf (of 32, as its own
                                                                  cost experiment), on the scene in the package
    python benchmarks/cost.py --fields hash --rounds 200

Both kinds of step move the same field and do all that training does: rays, samples, field, concentrate (and scatter), loss,
gradients, Adam. The lens is the scene's true one, so blur is as large as it is. Time is the processor's, so that other
programs disturb it little; medians over the rounds. Below stands what one search for the lens costs, in pinhole steps.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from statistics import median
from typing import get_args

import torch

from dofnerf import scenes
from dofnerf.scenes import Scene
from dofnerf.train import preset
from dofnerf.train.config import Stage
from dofnerf.train.data import training_data
from dofnerf.train.learner import Learner
from dofnerf.train.loop import find_lens, steps_of
from dofnerf.train.setting import Setting

WANTED = {"hash": 1.15, "nerf": 1.04, "dsnerf": 1.04}
WARM = {"hash": 150}  # pinhole steps first: until the density grid knows where something is
PATCH = {"hash": 48}


def begun(scene: Scene, field: str, patch: int) -> Learner:
    """A learner with the true lens, whose two kinds of step have the same number of rays."""
    config = preset("fast", field)
    config = replace(config, steps=replace(config.steps, patch_size=patch, rays=patch * patch))
    data = training_data(scene, "given", torch.device("cpu"))
    learner = Learner.begin(config, Setting.of(scene, config), scene, data)
    true = [scene.lens(i) for i in scene.train]
    low, high = learner.lens.focus_range
    with torch.no_grad():
        aperture = torch.tensor([one.aperture for one in true if one]) / learner.lens.max_aperture
        focus = (torch.tensor([1 / one.focus_depth for one in true if one]) - low) / (high - low)
        learner.lens.raw_aperture.copy_(torch.logit(aperture))
        learner.lens.raw_focus.copy_(torch.logit(focus, eps=1e-4))
    return learner


def measure(scene: Scene, field: str, patch: int, rounds: int) -> float:
    """Prints a field's line; returns the ratio."""
    learner = begun(scene, field, patch)
    data = training_data(scene, "given", learner.device)
    steps = steps_of(learner, data)
    times: dict[Stage, list[float]] = {stage: [] for stage in get_args(Stage)}

    def step(stage: Stage) -> None:
        start = time.process_time()
        steps.before(learner.standing.step, learner.generator)
        learner.update(steps(stage, learner.generator))
        times[stage].append(time.process_time() - start)
        learner.standing.step = 60  # beyond the warm-up of the rate; not the end of a stage

    for _ in range(WARM.get(field, 0)):
        learner.model.refresh(1 / 16, learner.generator)  # type: ignore[operator]
        step("pinhole")
    step("patches")
    for taken in times.values():
        taken.clear()
    for _ in range(rounds):
        step("pinhole")
        step("patches")
    plain, blurred = (median(times[stage]) for stage in ("pinhole", "patches"))
    ratio = blurred / plain
    line = f"{field:7} {patch}² rays: {1e3 * plain:.0f} ms pinhole, {1e3 * blurred:.0f} ms with the lens: {ratio:.3f} ×"
    print(f"{line} (wanted ≤ {WANTED[field]:.2f}), {rounds} rounds", flush=True)
    if field == "hash":
        start = time.process_time()
        find_lens(learner, data, coarse=True)
        search = time.process_time() - start
        print(
            f"        one search for the lens of {len(scene.train)} photos: {search:.1f} s, {search / plain:.0f} pinhole steps"
        )
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fields", nargs="+", default=["hash", "nerf"])
    parser.add_argument("--patch", type=int, help="pixels along a side of a patch; 48 for hash, 32 for networks")
    parser.add_argument("--rounds", type=int, help="100 for hash, 3 for networks")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(f"torch {torch.__version__}, {given.threads} threads")
    scene = scenes.demo()
    for field in given.fields:
        measure(scene, field, given.patch or PATCH.get(field, 32), given.rounds or (100 if field in WARM else 3))


if __name__ == "__main__":
    main()
