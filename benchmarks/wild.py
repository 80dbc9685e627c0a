"""Photos such as people bring: what a missing depth range, drifting exposure and poses that are off cost, and what
learning exposure and pose brings back.

    python benchmarks/wild.py [--steps 1.0] [--seeds 0 1] [--scene SCENE] [--validation] [--photos sharp]

Trains the packaged scene as it is, without its range and points, and made wild (`dofnerf synth wild`); prints PSNR of
sharp held-out views as given and registered (see `dofnerf.train.registration`), the errors of the lens, the
correlation of the gains with the true ones, and the errors of rotations, positions and focal lengths, before and after,
the first two after the similarity that fits the cameras to the true ones best. In one of the scenes focal lengths are
wrong, too, by 2 % from one end of the scene to the other. A seed is that of training and of what is made wild.
--validation holds out some of the training photos instead. --photos sharp trains on the all-in-focus photos: what does
it cost where nothing is blurred?
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from dofnerf import scenes
from dofnerf.camera import Camera, motion
from dofnerf.evaluate.metrics import psnr
from dofnerf.evaluate.scores import registered_psnr
from dofnerf.lab.bench.cell import validation
from dofnerf.lab.synth.wild import Wildness, make_wild
from dofnerf.scenes import Scene
from dofnerf.train import Run, preset, shortened, train

OFF = {"exposure": {"exposure": False}, "pose": {"refine_poses": False}, "focal": {"refine_focal": False}}


def bare(scene: Scene, folder: Path) -> Scene:
    """Without points and depth range, as a transforms.json with photos and poses alone."""
    frames = tuple(replace(frame, bounds=None, seen=None, seen_error=None) for frame in scene.frames)
    scenes.write_transforms(replace(scene, frames=frames, points=None), folder / "bare", with_bounds=False)
    return scenes.load(folder / "bare")


def figures(run: Run, scene: Scene, true: Scene, gains: dict[int, tuple[float, float, float]]) -> str:
    """One line about a run; `true` has the true cameras and lenses."""
    quality = np.mean([psnr(run.model.view(scene.camera(i)).image.numpy(), true.sharp(i)) for i in scene.test])
    lenses = [true.lens(i) for i in scene.train]
    aperture, focus = (value.detach().numpy() for value in (run.lens.aperture, run.lens.focus_disparity))
    far, near = run.setting.disparities
    wide = np.mean([abs(a / lens.aperture - 1) for a, lens in zip(aperture, lenses, strict=True)])
    deep = np.mean([abs(f - lens.focus_disparity) / (near - far) for f, lens in zip(focus, lenses, strict=True)])
    registered = [registered_psnr(run, scene.camera(i), true.sharp(i)) for i in scene.test]
    fitted = f"{np.mean(registered):.2f} dB" if isinstance(registered[0], float) else "–"
    lens_off = "–" if run.config.photos == "sharp" else f"{100 * wide:.1f} % / {100 * deep:.1f} %"
    words = [f"{quality:.2f} dB", fitted, lens_off]
    quantities = run.learner.quantities
    if gains and "exposure" in quantities.by_name:
        logs = np.log([gains[i] for i in scene.train])
        found = quantities.by_name["exposure"].log_gain.detach().numpy()
        words.append(f"{np.corrcoef(logs.ravel(), found.ravel())[0, 1]:.3f}")
    else:
        words.append("–")
    if gains:
        given = [scene.camera(i) for i in scene.train]
        refined = [quantities.camera(camera, k) for k, camera in enumerate(given)]
        both = [
            errors(cameras, [true.camera(i) for i in scene.train], 2 / (near + far)) for cameras in (given, refined)
        ]
        zooms = [
            np.log([a.fx / true.camera(i).fx for a, i in zip(cameras, scene.train, strict=True)])
            for cameras in (given, refined)
        ]
        words.append(" → ".join(f"{turn:.3f}° / {shift:.5f}" for turn, shift in both))
        words.append(" → ".join(f"{100 * np.abs(zoom - zoom.mean()).mean():.2f} %" for zoom in zooms))
    else:
        words += ["–", "–"]
    return " | ".join(words)


def errors(cameras: list[Camera], true: list[Camera], depth: float) -> tuple[float, float]:
    """Mean rotation error in degrees and mean position error, after the similarity (linear in its parameters) that fits
    best when shifts count as the angles at which things at `depth` see them."""
    moves = [motion(a, b) for a, b in zip(true, cameras, strict=True)]
    places = np.stack([camera.position for camera in true])
    rows = []
    for place in places - places.mean(0):
        rows.append(np.hstack([np.eye(3), np.zeros((3, 4))]))
        rows.append(np.hstack([np.cross(np.eye(3), place).T, np.eye(3), place[:, None]]) / depth)
    wanted = np.concatenate([np.concatenate([turn, shift / depth]) for turn, shift in moves])
    left = (wanted - np.vstack(rows) @ np.linalg.lstsq(np.vstack(rows), wanted, rcond=None)[0]).reshape(-1, 6)
    turned, shifted = (np.linalg.norm(part, axis=1).mean() for part in (left[:, :3], depth * left[:, 3:]))
    return float(np.rad2deg(turned)), float(shifted)


def held_out(scene: Scene, true: Scene) -> Scene:
    """Some of the training photos held out, with their true cameras and no gain, as held-out views are."""
    scene = validation(scene)
    kept = [replace(true.frames[i], bounds=None, seen=None, seen_error=None) for i in range(len(scene.frames))]
    frames = tuple(kept[i] if i in scene.test else frame for i, frame in enumerate(scene.frames))
    return replace(scene, frames=frames)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--scene", type=Path, help="with sharp photos and known lenses; the packaged one by default")
    parser.add_argument("--validation", action="store_true")
    parser.add_argument("--photos", choices=["given", "sharp"], default="given")
    parser.add_argument("--only", nargs="+", help="only these of the scenes")
    parser.add_argument("--learned", action="store_true", help="only with exposure, poses and focal lengths learned")
    given = parser.parse_args()
    demo = scenes.load(given.scene) if given.scene else scenes.demo()
    with tempfile.TemporaryDirectory() as folder:
        plain = bare(demo, Path(folder))
        head = ("scene", "learned", "held-out views", "registered", "lens", "gains", "poses off by", "focal lengths")
        print(f"| {' | '.join(('seed', *head))} |\n{'|---' * (1 + len(head))}|", flush=True)
        for seed in given.seeds:
            cases = {"as it is": (demo, {}), "no range, no points": (plain, {})}
            cases["wild"] = make_wild(plain, Wildness(seed=seed))
            cases["wild, breathing"] = make_wild(plain, Wildness(seed=seed, breathing=0.02))
            cases = {name: case for name, case in cases.items() if given.only is None or name in given.only}
            config = replace(shortened(replace(preset("fast"), seed=seed), given.steps), photos=given.photos)
            for (label, (scene, made)), learned in product(cases.items(), (True, False)[: 1 + (not given.learned)]):
                scene = held_out(scene, demo) if given.validation else scene
                run = train(scene, config.changed({} if learned else OFF))
                words = figures(run, scene, demo, made)
                print(f"| {seed} | {label} | {'yes' if learned else 'no'} | {words} |", flush=True)


if __name__ == "__main__":
    main()
