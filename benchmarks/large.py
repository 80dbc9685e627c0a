"""How long would training at a real size take, and how much memory? Measured over a few steps of each kind.

    python benchmarks/large.py 1008 672                    `fast`, photos of the package enlarged to that size
    python benchmarks/large.py 3000 2000 --preset best

Steps differ by stage, by the size to which photos are shrunk, by the part of a photo that a step takes and by the
sub-apertures. Of each kind a few steps are measured, at blur of up to 24 pixels, and the sum over the
schedule is the estimate; the start and one search for the lens are measured whole. Enlarged photos have no detail of
that size, so this measures time and memory, not quality. One thread, unless --threads says more.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections import Counter
from dataclasses import replace

import torch

from dofnerf import scenes
from dofnerf.models.data import Setting, training_data
from dofnerf.models.splat.config import SplatConfig
from dofnerf.scenes.reading import scaled
from dofnerf.train import preset
from dofnerf.train.learner import Learner
from dofnerf.train.loop import find_lens, steps_of

TIMES = 3


def kind(own: SplatConfig, step: int) -> tuple[str, int, int]:
    """Stage, pixels at the most, and sub-apertures."""
    stage = own.stage_of(step)
    return (
        stage,
        own.shrunk_to(step) or own.step_pixels,
        own.sub_apertures_at(step) if stage == "sub-apertures" else 1,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("width", type=int)
    parser.add_argument("height", type=int)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    scene = scenes.demo()
    scene = replace(scene, frames=tuple(scaled(frame, given.width, given.height) for frame in scene.frames))
    config = preset(given.preset, "splat")
    config = replace(config, method=config.method.for_photos_of(given.width * given.height))
    own = config.method
    begun = time.process_time()
    data = training_data(scene, config.photos, torch.device("cpu"), None)
    learner = Learner.begin(config, Setting.of(scene, "none"), scene, data)
    steps, start = steps_of(learner, data), time.process_time() - begun
    begun = time.process_time()
    find_lens(learner, steps, True)
    search = time.process_time() - begun
    with torch.no_grad():
        learner.lens.raw_aperture.zero_()  # half of the largest
    size = f"{given.width}×{given.height}, {len(data.photos)} photos, {len(learner.model.means)} Gaussians"
    print(f"{size}, {own.total} steps\n\n| kind of step | steps | s a step | s |\n|---|---|---|---|", flush=True)
    found, whole = Counter(kind(own, step) for step in range(own.total)), start + search
    for one, count in found.items():
        first = next(step for step in range(own.total) if kind(own, step) == one)
        took = []
        for step in range(first, min(first + TIMES + 1, own.total)):
            begun = time.process_time()
            learner.progress.step = step
            steps.before(step, learner.generator)
            learner.update(steps(one[0], learner.generator))
            took.append(time.process_time() - begun)
        cost = sum(took[1:]) / len(took[1:]) if len(took) > 1 else took[0]
        whole += count * cost
        words = f"{one[0]}, up to {one[1]:,} pixels, {one[2]} sub-apertures"
        print(f"| {words} | {count} | {cost:.3f} | {count * cost:.0f} |", flush=True)
    print(f"| start, lens search | | {start:.1f}, {search:.1f} | {start + search:.0f} |")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"\n{whole / 60:.1f} minutes of processor time in all; peak memory {memory:.1f} GB")


if __name__ == "__main__":
    main()
