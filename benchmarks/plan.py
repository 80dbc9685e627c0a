"""Does the plan of `dofnerf run --minutes` hold? What it says of a scene, and what training, report and page then took.

    python benchmarks/plan.py demo --out plan
    python benchmarks/plan.py drinks --width 780 --steps 0.2 --out plan

By processor time, with one thread, so that other programs hardly matter; also the machine's speed, on which the plan is
based, is measured so. The parts of training are there to see which constant of `studio/plan.py` or of
`SplatConfig.work` is off. The last line is what the plan should have said of a pixel of a view, if only steps were off.
"""

from __future__ import annotations

import argparse
import functools
import resource
import shutil
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from dofnerf import scenes
from dofnerf.evaluate.lpips import LpipsConfig
from dofnerf.evaluate.report.run_page import write_run_page
from dofnerf.models.data import f_numbers
from dofnerf.studio import plan as planning
from dofnerf.studio.export import export_config
from dofnerf.studio.export import run as export
from dofnerf.studio.run import at_width
from dofnerf.studio.source import source_of
from dofnerf.train import KeepConfig, loop, preset, shortened, train, trainer
from dofnerf.train.learner import Learner

PARTS = {
    "reading photos": (trainer, "training_data"),
    "depth range, points": (trainer, "_prepared"),
    "starting points": (Learner, "begin"),
    "lens search": (loop, "find_lens"),
    "registration": (loop, "register_photos"),
    "standard errors": (loop, "measure"),
    "steps": (loop, "one_step"),
}
BEGUN = time.process_time()  # imports are a part of the plan


def timed(took: dict[str, float], part: str, home: Any, name: str) -> None:
    """Add up the processor time of a function in `took`."""
    act = getattr(home, name)

    @functools.wraps(act)
    def measured(*given: Any, **named: Any) -> Any:
        begun = time.process_time()
        try:
            return act(*given, **named)
        finally:
            took[part] += time.process_time() - begun

    setattr(home, name, measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene")
    parser.add_argument("--width", type=int)
    parser.add_argument("--steps", type=float, default=1.0)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run, which is made anew")
    given = parser.parse_args()
    torch.set_num_threads(1)
    planning.time = SimpleNamespace(perf_counter=time.process_time, monotonic=time.monotonic)  # type: ignore[assignment]
    scene = scenes.load(Path(given.scene) if given.scene != scenes.PACKAGED else given.scene)
    scene = at_width(scene, given.width or scene.size[0])
    pixels = scene.size[0] * scene.size[1]
    config = shortened(preset(given.preset), given.steps)
    plan = planning.Plan(config.method, len(scene.train), 1e9, None)
    said = plan.stages(pixels)
    config = replace(config, method=config.method.for_photos_of(pixels))
    if all(f_numbers(scene)):
        config = config.changed({"lens": {"share_aperture": "exif"}})
    took: dict[str, float] = defaultdict(float)
    for part, place in PARTS.items():
        timed(took, part, *place)
    shutil.rmtree(given.out, ignore_errors=True)
    before = time.process_time() - BEGUN
    begun = time.process_time()
    run = train(scene, config, out=given.out, keep=KeepConfig(), quiet=True)
    found = {"train": time.process_time() - begun}
    begun = time.process_time()
    write_run_page(given.out / "report.html", run, scene, LpipsConfig().find())
    found["report"], begun = time.process_time() - begun, time.process_time()
    export(export_config()(given.out, html=True), source_of(run, given.out))  # type: ignore[call-arg]
    found["page"] = time.process_time() - begun
    took["steps"] -= took["lens search"] + took["registration"]
    took["the rest"] = found["train"] - sum(took.values())
    size = f"{len(scene.train)} photos of {scene.size[0]}×{scene.size[1]}, {len(run.model.means)} Gaussians"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(f"{scene.name}: {size}, {config.method.total} steps; peak memory {memory:.1f} GB\n")
    print("| part | plan, s | took, s | |\n|---|---|---|---|")
    for name, seconds in {**said, "all": sum(said.values())}.items():
        real = found[name] if name in found else sum(found.values())
        print(f"| {name} | {seconds:.0f} | {real:.0f} | {seconds / real - 1:+.0%} |")
    print("\n| part of training | s |\n|---|---|")
    for part, seconds in sorted(took.items(), key=lambda one: -one[1]):
        print(f"| {part} | {seconds:.1f} |")
    steps = took["steps"] / config.method.work(pixels)
    print(f"\nbefore training {before:.1f} s; a pixel of a view {plan.view:.3g} s; by the steps {steps:.3g} s")


if __name__ == "__main__":
    main()
