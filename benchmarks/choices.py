"""What is each choice worth? One change at a time to the preset `fast`: same seed, same number of steps.

    python benchmarks/choices.py                               splats, all of the preset's steps
    python benchmarks/choices.py --field hash --steps 0.3
    python benchmarks/choices.py --only search

Every eighth photo of the *training* ones is held out (the scene's own held-out views choose nothing). Prints a table: PSNR of
sharp renders there, the lens's mean errors (aperture in per cent, focus disparity in per cent of the scene's range), processor
seconds.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

from dofnerf import scenes
from dofnerf.evaluate.quality import held_out_psnr, lens_off
from dofnerf.scenes import Scene
from dofnerf.train import StepsConfig, TrainConfig, preset, shortened, train

EVERY = 8
Choices = dict[str, dict[str, dict[str, object]]]
LENS: Choices = {
    "preset": {},
    "no search (constants, then gradients)": {"lens": {"search": False}},
    "no search, rate 5e-4 (the paper's)": {"lens": {"search": False, "lens_rate": 5e-4}},
    "search once, no re-fits": {"lens": {"refits": ()}},
    "search only, no gradients": {"lens": {"lens_rate": 1e-9}},
    "momentum moves all photos": {"lens": {"only_sampled": False}},
    "one aperture for all": {"lens": {"share_aperture": "all"}},
}
VOLUMETRIC: Choices = {
    "nothing extra in focus": {"lens": {"in_focus": 0.0}},
    "no sparse depth": {"rates": {"depth_weight": 0.0}},
    "loss free of lens noise": {"lens": {"noise_free": True}},
}


def splat(steps: StepsConfig) -> Choices:
    """What splats may choose beside; the stages with a lens together are as long as in the preset."""
    both = steps.lens_steps + steps.lens_ray_steps
    return {
        "picture scattered by its depth, as the paper does": {"field_config": {"blur": "scatter"}},
        "lens never in parts": {"steps": {"lens_steps": both, "lens_ray_steps": 0}},
        "8 parts instead of 4": {"steps": {"lens_points": 8}},
        "no growth": {"field_config": {"grow": False}},
        "colour of one harmonic (degree 0)": {"field_config": {"degree": 0}},
        "twice as many Gaussians": {"field_config": {"splats": 40_000}},
    }


def validation(scene: Scene) -> Scene:
    """The scene with some of its training photos held out, and its own held-out ones gone."""
    held = scene.train[EVERY // 2 :: EVERY]
    return replace(scene, train=tuple(i for i in scene.train if i not in held), test=held)


def changed(config: TrainConfig, changes: dict[str, dict[str, object]]) -> TrainConfig:
    """The configuration with some members of its parts changed."""
    return replace(config, **{part: replace(getattr(config, part), **new) for part, new in changes.items()})  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", nargs="?", type=Path)
    parser.add_argument("--field", default="splat")
    parser.add_argument("--steps", type=float, default=1.0, help="share of the preset's steps")
    parser.add_argument("--only", default="", help="choices whose name holds this")
    given = parser.parse_args()
    scene = validation(scenes.load(given.scene) if given.scene else scenes.demo())
    config = shortened(preset("fast", given.field), given.steps)
    print(f"{scene.describe()}; {given.field}, {config.steps}")
    print("\n| choice | PSNR | aperture | focus | seconds |\n|---|---|---|---|---|")
    for name, changes in (LENS | (splat(config.steps) if given.field == "splat" else VOLUMETRIC)).items():
        if given.only in name:
            begun = time.process_time()
            run = train(scene, changed(config, changes))
            wide, focus = lens_off(run, scene)
            numbers = f"{held_out_psnr(run, scene):.2f} | {100 * wide:.1f} % | {100 * focus:.1f} %"
            print(f"| {name} | {numbers} | {time.process_time() - begun:.0f} |", flush=True)


if __name__ == "__main__":
    main()
