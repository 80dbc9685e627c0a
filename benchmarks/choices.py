"""What is each choice worth? One change at a time to the preset `fast`: same seed, same number of steps.

    python benchmarks/choices.py                               splats, all of the preset's steps
    python benchmarks/choices.py --field hash --steps 0.3
    python benchmarks/choices.py --only search

Every eighth photo of the *training* ones is held out (the scene's own held-out views choose nothing). Prints a table:
PSNR of sharp renders there, the lens's mean errors (aperture in per cent, focus disparity in per cent of the scene's
range), processor seconds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from dofnerf import scenes
from dofnerf.evaluate.scores import held_out_psnr, lens_error
from dofnerf.lab.bench.cell import validation
from dofnerf.lab.bench.experiments.design import choices_of
from dofnerf.train import preset, shortened, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", nargs="?", type=Path)
    parser.add_argument("--field", default="splat")
    parser.add_argument("--steps", type=float, default=1.0, help="share of the preset's steps")
    parser.add_argument("--only", default="", help="choices whose name holds this")
    given = parser.parse_args()
    scene = validation(scenes.load(given.scene) if given.scene else scenes.demo())
    config = shortened(preset("fast", given.field), given.steps)
    print(f"{scene.describe()}; {given.field}, {config.method}")
    print("\n| choice | PSNR | aperture | focus | seconds |\n|---|---|---|---|---|")
    for name, changes in choices_of(given.field, config.method).items():
        if given.only in name:
            begun = time.process_time()
            run = train(scene, config.changed(changes))
            wide, focus = lens_error(run, scene)
            numbers = f"{held_out_psnr(run, scene):.2f} | {100 * wide:.1f} % | {100 * focus:.1f} %"
            print(f"| {name} | {numbers} | {time.process_time() - begun:.0f} |", flush=True)


if __name__ == "__main__":
    main()
