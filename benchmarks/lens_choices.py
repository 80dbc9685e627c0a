"""What is each choice worth, by which the lens is found? One change at a time: same seed, same steps.

    python benchmarks/lens_choices.py                        a third of the preset's steps
    python benchmarks/lens_choices.py --steps 1 --only search

Every eighth photo of the *training* ones is held out (the scene's own held-out views choose nothing). Prints a table: PSNR of
sharp renders there, the lens's mean errors (aperture in per cent, focus disparity in per cent of the scene's range), processor
seconds.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from dofnerf import scenes
from dofnerf.scenes import Scene
from dofnerf.train import Run, TrainConfig, preset, train
from share import held_out_psnr, shortened

EVERY = 8
CHOICES: dict[str, dict[str, dict[str, object]]] = {
    "preset": {},
    "no search (constants, then gradients)": {"lens": {"search": False}},
    "no search, rate 5e-4 (the paper's)": {"lens": {"search": False, "lens_rate": 5e-4}},
    "search once, no re-fits": {"lens": {"refits": ()}},
    "search only, no gradients": {"lens": {"lens_rate": 1e-9}},
    "momentum moves all photos": {"lens": {"only_sampled": False}},
    "one aperture for all": {"lens": {"share_aperture": "all"}},
    "nothing extra in focus": {"lens": {"in_focus": 0.0}},
    "no sparse depth": {"rates": {"depth_weight": 0.0}},
    "loss free of lens noise": {"lens": {"noise_free": True}},
}


def validation(scene: Scene) -> Scene:
    """The scene with some of its training photos held out, and its own held-out ones gone."""
    held = scene.train[EVERY // 2 :: EVERY]
    return replace(scene, train=tuple(i for i in scene.train if i not in held), test=held)


def lens_errors(run: Run, scene: Scene) -> tuple[float, float]:
    """Mean relative error of the aperture, mean error of the focus disparity as a share of the scene's range."""
    true = [scene.lens(i) for i in scene.train]
    assert all(lens is not None for lens in true), "the scene does not know its lenses"
    wide = np.array([lens.aperture for lens in true if lens])
    focus = np.array([1 / lens.focus_depth for lens in true if lens])
    found_wide, found_focus = run.lens.aperture.detach().numpy(), run.lens.focus_disparity.detach().numpy()
    off = np.abs(found_focus - focus) / (1 / scene.near - 1 / scene.far)
    return float(np.abs(found_wide / wide - 1).mean()), float(off.mean())


def changed(config: TrainConfig, changes: dict[str, dict[str, object]]) -> TrainConfig:
    """The configuration with some members of its parts changed."""
    return replace(config, **{part: replace(getattr(config, part), **new) for part, new in changes.items()})  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", nargs="?", type=Path)
    parser.add_argument("--field", default="hash")
    parser.add_argument("--steps", type=float, default=1 / 3, help="share of the preset's steps")
    parser.add_argument("--only", default="", help="choices whose name holds this")
    given = parser.parse_args()
    scene = validation(scenes.load(given.scene) if given.scene else scenes.demo())
    config = shortened(preset("fast", given.field), given.steps)
    print(f"{scene.describe()}; {given.field}, {config.steps}")
    print("\n| choice | PSNR | aperture | focus | seconds |\n|---|---|---|---|---|")
    for name, changes in CHOICES.items():
        if given.only in name:
            begun = time.process_time()
            run = train(scene, changed(config, changes))
            wide, focus = lens_errors(run, scene)
            numbers = f"{held_out_psnr(run, scene):.2f} | {100 * wide:.1f} % | {100 * focus:.1f} %"
            print(f"| {name} | {numbers} | {time.process_time() - begun:.0f} |", flush=True)


if __name__ == "__main__":
    main()
