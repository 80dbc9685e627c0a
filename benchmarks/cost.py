"""What a lens costs: a training step by patches, blurred, against a pinhole step with as many rays. One run, taking
turns.

    python benchmarks/cost.py          hash (patches of 48) and nerf (of 32, as in the paper's cost experiment)
    python benchmarks/cost.py --fields hash --rounds 200

Both kinds of step move the same field and do all that training does: rays, samples, field, concentrate (and scatter),
loss, gradients, Adam. The lens is the scene's true one, so blur is as large as it is. Time is the processor's, so that
other programs disturb it little; medians over the rounds. Below stands what one search for the lens costs, in pinhole
steps.
"""

from __future__ import annotations

import argparse
import time

import torch

from dofnerf import scenes
from dofnerf.lab.bench.step_cost import ROUNDS, begun, patch_of, step_times
from dofnerf.models.data import training_data
from dofnerf.scenes import Scene
from dofnerf.train import preset
from dofnerf.train.loop import find_lens, steps_of

WANTED = {"hash": 1.15, "nerf": 1.04, "dsnerf": 1.04}


def measure(scene: Scene, field: str, patch: int, rounds: int) -> float:
    """Prints a field's line; returns the ratio."""
    learner = begun(scene, preset("fast", field), patch)
    plain, blurred = step_times(learner, scene, rounds).values()
    ratio = blurred / plain
    line = f"{field:7} {patch}² rays: {1e3 * plain:.0f} ms pinhole, {1e3 * blurred:.0f} ms with the lens: {ratio:.3f} ×"
    print(f"{line} (wanted ≤ {WANTED[field]:.2f}), {rounds} rounds", flush=True)
    if field == "hash":
        start = time.process_time()
        find_lens(learner, steps_of(learner, training_data(scene, "given", learner.device)), True)
        search = time.process_time() - start
        print(
            f"        one search for the lens of {len(scene.train)} photos: {search:.1f} s, {search / plain:.0f} "
            f"pinhole steps"
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
        measure(scene, field, given.patch or patch_of(field), given.rounds or ROUNDS.get(field, 3))


if __name__ == "__main__":
    main()
