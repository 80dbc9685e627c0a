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
from dataclasses import replace
from pathlib import Path

import dofnerf
from dofnerf import scenes
from dofnerf.studio.quality import held_out_psnr, lens_off
from dofnerf.train import KeepConfig, pinhole_twin, preset, sharp_oracle, shortened, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", nargs="?", type=Path)
    parser.add_argument("--width", type=int)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--field", default="splat")
    parser.add_argument("--steps", type=float, default=1.0, help="share of the preset's steps")
    parser.add_argument("--lens", type=json.loads, default={}, help="changes to the lens's settings, as JSON")
    parser.add_argument("--stages", type=json.loads, default={}, help="changes to the steps, as JSON")
    parser.add_argument("--only", choices=["pinhole", "ours", "oracle"])
    parser.add_argument("--out", type=Path, default=Path("share-runs"))
    given = parser.parse_args()

    scene = scenes.load(given.scene, width=given.width) if given.scene else scenes.demo(width=given.width)
    config = shortened(preset(given.preset, given.field), given.steps)
    config = replace(config, steps=replace(config.steps, **given.stages))
    configs = {
        "pinhole": pinhole_twin(config),
        "ours": replace(config, lens=replace(config.lens, **given.lens)),
        "oracle": sharp_oracle(config),
    }
    print(f"dofnerf {dofnerf.__version__}; {scene.describe()}; {given.field}, {config.steps}")
    found = {}
    for name, one in configs.items():
        if given.only in (None, name):
            run = train(scene, one, out=given.out / name, resume=True, keep=KeepConfig(preview_minutes=0))
            found[name] = held_out_psnr(run, scene)
            print(f"{name:8}  PSNR {found[name]:.2f}  {run.learner.standing.seconds:.0f} s", flush=True)
            if run.has_lens:
                wide, deep = lens_off(run, scene)
                print(
                    f"          lens off by {100 * wide:.1f} % of the aperture, {100 * deep:.1f} % of the focus range (means)"
                )
    if len(found) == 3:
        share = (found["ours"] - found["pinhole"]) / (found["oracle"] - found["pinhole"])
        print(f"share of the defocus gap closed  {share:.2f}")


if __name__ == "__main__":
    main()
