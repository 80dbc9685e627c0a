"""How long would training at a real size take, and how much memory? Measured over a few steps of each kind.

    python benchmarks/large.py 1008 672                    `fast`, photos of the package enlarged to that size
    python benchmarks/large.py 3000 2000 --preset best
    python benchmarks/large.py 3000 2000 --run runs/demo/ours     with Gaussians as training leaves them

Steps differ by stage, by the size to which photos are shrunk, by the part of a photo that a step takes and by the
sub-apertures. Of each kind a few steps are measured, at blur of up to 24 pixels at 1000 pixels across, and the sum
over the schedule is the estimate; the start and one search for the lens are measured whole. Enlarged photos have no
detail of that size, so this measures time and memory, not quality. Training changes how large and how opaque Gaussians
are: with --run, a run of the package's scene, they are its own, each split into as many as are too few, on the same
surfaces. One thread, unless --threads says more.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import torch

from dofnerf import scenes
from dofnerf.models.data import Setting, training_data
from dofnerf.models.splat.config import SplatConfig
from dofnerf.models.splat.model import SplatModel
from dofnerf.models.splat.raster.reference import rotation_matrices
from dofnerf.scenes.reading import scaled
from dofnerf.train import Run, preset
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


@torch.no_grad()
def take_over(model: SplatModel, trained: SplatModel) -> None:
    """Give a model the Gaussians of a trained one, each split where there are fewer: places are drawn from its shape,
    and its area is divided."""
    count, known = len(model.means), len(trained.means)
    chosen = torch.arange(count) % known
    for name in ("rotations", "opacity_logits", "base", "directional"):
        getattr(model, name).copy_(getattr(trained, name)[chosen])
    sizes = trained.log_scales[chosen].exp()
    away = sizes * torch.randn(count, 3, generator=torch.Generator().manual_seed(0))
    away = (rotation_matrices(trained.rotations[chosen]) @ away[..., None])[..., 0]
    model.means.copy_(trained.means[chosen] + (away if count > known else 0))
    model.log_scales.copy_(trained.log_scales[chosen] - 0.5 * math.log(count / known))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("width", type=int)
    parser.add_argument("height", type=int)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--run", type=Path, help="a trained run of the scene in the package")
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
    if given.run is not None:
        take_over(learner.model, Run.load(given.run).model)
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
