"""Photos such as people bring: what a missing depth range, drifting exposure and poses that are off cost, and what
learning exposure and pose brings back.

    python benchmarks/wild.py [--steps 1.0] [--seeds 0 1]

Trains the packaged scene as it is, without its range and points, and made wild (`dofnerf synth wild`); prints PSNR of
sharp held-out views, the errors of the lens, the correlation of the gains with the true ones, and the rotation error.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from dofnerf import scenes
from dofnerf.evaluate.metrics import psnr
from dofnerf.lab.synth.wild import Wildness, make_wild
from dofnerf.scenes import Scene
from dofnerf.train import Run, preset, shortened, train

OFF = {"exposure": {"exposure": False}, "pose": {"refine_poses": False}}


def bare(scene: Scene) -> Scene:
    """Without points and depth range, as a transforms.json with photos and poses alone."""
    with tempfile.TemporaryDirectory() as folder:
        frames = tuple(replace(frame, bounds=None, seen=None, seen_error=None) for frame in scene.frames)
        written = replace(scene, frames=frames, points=None)
        scenes.write_transforms(written, Path(folder) / "bare", with_bounds=False)
        found = scenes.load(Path(folder) / "bare")
        for i in range(len(found)):
            found.photo(i), found.sharp(i)  # into the cache, before the folder goes
        return found


def figures(run: Run, scene: Scene, true: Scene, gains: dict[int, tuple[float, float, float]]) -> str:
    """One line about a run; `true` has the true cameras and lenses."""
    quality = np.mean([psnr(run.model.view(scene.camera(i)).image.numpy(), true.sharp(i)) for i in scene.test])
    lenses = [true.lens(i) for i in scene.train]
    aperture, focus = (value.detach().numpy() for value in (run.lens.aperture, run.lens.focus_disparity))
    far, near = run.setting.disparities
    wide = np.mean([abs(a / lens.aperture - 1) for a, lens in zip(aperture, lenses, strict=True)])
    deep = np.mean([abs(f - lens.focus_disparity) / (near - far) for f, lens in zip(focus, lenses, strict=True)])
    words = [f"{quality:.2f} dB", f"{100 * wide:.1f} % / {100 * deep:.1f} %"]
    quantities = run.learner.quantities
    if gains and "exposure" in quantities.by_name:
        logs = np.log([gains[i] for i in scene.train])
        found = quantities.by_name["exposure"].log_gain.detach().numpy()
        words.append(f"{np.corrcoef(logs.ravel(), found.ravel())[0, 1]:.3f}")
    if gains:
        cameras = [quantities.camera(scene.camera(i), k) for k, i in enumerate(scene.train)]
        both = [(camera, true.camera(i)) for camera, i in zip(cameras, scene.train, strict=True)]
        turns = [
            Rotation.from_matrix(a.camera_to_world[:, :3] @ b.camera_to_world[:, :3].T).as_rotvec() for a, b in both
        ]
        words.append(f"{np.rad2deg(np.linalg.norm(np.array(turns) - np.mean(turns, 0), axis=1).mean()):.3f}°")
    return " | ".join(words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    given = parser.parse_args()
    demo = scenes.demo()
    plain = bare(demo)
    wild, gains = make_wild(plain, Wildness())
    cases = {"as it is": (demo, {}), "no range, no points": (plain, {}), "wild": (wild, gains)}
    print("| scene | exposure and pose | held-out views | lens | gains | rotation |\n|---|---|---|---|---|---|")
    for seed in given.seeds:
        for label, (scene, made) in cases.items():
            for learned in (True, False):
                config = shortened(replace(preset("fast"), seed=seed), given.steps).changed({} if learned else OFF)
                run = train(scene, config)
                print(
                    f"| {label} | {'learned' if learned else 'off'} | {figures(run, scene, demo, made)} |", flush=True
                )


if __name__ == "__main__":
    main()
