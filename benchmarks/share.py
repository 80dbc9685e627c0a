"""How much of the defocus gap does training with a lens close? Three runs of one budget: pinhole twin, ours, sharp oracle.

    python benchmarks/share.py                                  the scene in the package, preset fast
    python benchmarks/share.py SCENE --field hash --steps 0.5   half of the preset's steps
    python benchmarks/share.py --only ours --lens '{"search": false}'

Prints PSNR over the held-out views, rendered with aperture 0 against the all-in-focus photos, the share
(ours − pinhole) / (oracle − pinhole), and how far the lens found is from the true one. Runs are kept under --out and resumed.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np

import dofnerf
from dofnerf import scenes
from dofnerf.scenes import Scene
from dofnerf.train import KeepConfig, Run, TrainConfig, pinhole_twin, preset, train


def held_out_psnr(run: Run, scene: Scene) -> float:
    """Mean over the held-out views of the PSNR of the sharp render."""
    values = []
    for i in scene.test:
        sharp = scene.sharp(i)
        assert sharp is not None, "the scene needs all-in-focus photos of its held-out views"
        error = np.square(run.render(scene.camera(i)).image.clamp(0, 1).cpu().numpy() - sharp).mean()
        values.append(-10 * math.log10(error))
    return float(np.mean(values))


def lens_errors(run: Run, scene: Scene) -> tuple[float, float]:
    """Median relative error of the aperture, and of the focus as blur: median error in pixels at the far end of the scene."""
    aperture, focus = run.lens.aperture.tolist(), run.lens.focus_disparity.tolist()
    wide, deep = [], []
    for k, i in enumerate(scene.train):
        true = scene.lens(i)
        if true is not None and true.aperture > 0:
            wide.append(abs(aperture[k] / true.aperture - 1))
            deep.append(true.aperture * abs(focus[k] - 1 / true.focus_depth))
    return (float(np.median(wide)), float(np.median(deep))) if wide else (math.nan, math.nan)


def shortened(config: TrainConfig, share: float) -> TrainConfig:
    """The same stages with that share of their steps."""
    steps = config.steps
    counts = (round(share * n) for n in (steps.pinhole_steps, steps.lens_steps, steps.lens_ray_steps))
    pinhole, lens, rays = counts
    return replace(config, steps=replace(steps, pinhole_steps=pinhole, lens_steps=lens, lens_ray_steps=rays))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", nargs="?", type=Path)
    parser.add_argument("--width", type=int)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--field", default="hash")
    parser.add_argument("--steps", type=float, default=1.0, help="share of the preset's steps")
    parser.add_argument("--lens", type=json.loads, default={}, help="changes to the lens's settings, as JSON")
    parser.add_argument("--stages", type=json.loads, default={}, help="changes to the steps, as JSON")
    parser.add_argument("--only", choices=["pinhole", "ours", "oracle"])
    parser.add_argument("--out", type=Path, default=Path("share-runs"))
    given = parser.parse_args()

    scene = scenes.load(given.scene, width=given.width) if given.scene else scenes.demo(width=given.width)
    config = shortened(preset(given.preset, given.field), given.steps)
    config = replace(config, steps=replace(config.steps, **given.stages))
    twin = pinhole_twin(config)
    configs = {
        "pinhole": twin,
        "ours": replace(config, lens=replace(config.lens, **given.lens)),
        "oracle": replace(twin, steps=replace(twin.steps, photos="sharp")),
    }
    print(f"dofnerf {dofnerf.__version__}; {scene.describe()}; {given.field}, {config.steps}")
    found = {}
    for name, one in configs.items():
        if given.only in (None, name):
            run = train(scene, one, out=given.out / name, resume=True, keep=KeepConfig(preview_minutes=0))
            found[name] = held_out_psnr(run, scene)
            print(f"{name:8}  PSNR {found[name]:.2f}  {run.learner.standing.seconds:.0f} s", flush=True)
            if run.has_lens:
                wide, deep = lens_errors(run, scene)
                print(f"          lens: aperture off by {100 * wide:.1f} %, focus by {deep:.2f} px of blur (medians)")
    if len(found) == 3:
        share = (found["ours"] - found["pinhole"]) / (found["oracle"] - found["pinhole"])
        print(f"share of the defocus gap closed  {share:.2f}")


if __name__ == "__main__":
    main()
