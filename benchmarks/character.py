"""Is the character of a lens found, what does it gain where there is one, and what does it cost where there is none?

    python benchmarks/character.py --out character-runs             makes scenes, trains (resumes), compares
    python benchmarks/character.py --only garden41 --seeds 0 1
    python benchmarks/character.py --only package --seeds 0 1       a plain disc

Each scene is trained with and without `--character`. Prints the character that was found and the true one; and PSNR of
the held-out views, rendered with aperture 0 against the sharp photos: of the whole picture, and of its outer third, the
third of the pixels that is farthest from the middle. Scenes of `synth lens` need Mitsuba, and minutes each.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from dofnerf import scenes
from dofnerf.evaluate.scores import lens_error, sharp_view
from dofnerf.files import read_image, write_image
from dofnerf.lab.synth.layouts import make_layout
from dofnerf.lab.synth.lens import LensSceneConfig, Shot, make_lens_scene, plan, take
from dofnerf.lab.synth.raytrace import RayTracer
from dofnerf.optics.shapes import RealLens
from dofnerf.scenes import Scene
from dofnerf.train import KeepConfig, Run, preset, shortened, train

# Focus brackets, as somebody brings who wants to measure a lens: some photo shows each place nearly sharp.
BRACKETS = {"views": 9, "bracket": 3, "blur": 2.0, "size": (252, 168), "samples": 128, "sharp": False, "depth": False}
SMALL = {"views": 20, "size": (189, 126), "samples": 80, "mixed": True, "sharp": False, "depth": False}
HARD = {"cats_eye": 1.2, "profile": (0.5, 0.0), "blades": 6, "rotation": 20.0}
SOFT = {"cats_eye": 0.9, "profile": (-0.4, 0.0), "blades": 7, "rotation": 10.0}
SCENES = {
    "garden41": LensSceneConfig("garden", seed=41, **HARD, **BRACKETS),  # type: ignore[arg-type]
    "tabletop42": LensSceneConfig("tabletop", seed=42, **SOFT, **BRACKETS),  # type: ignore[arg-type]
    "mixed41": LensSceneConfig("garden", seed=41, blur=2.5, **HARD, **SMALL),  # type: ignore[arg-type]
    "package": None,
    "disc43": LensSceneConfig("garden", seed=43, blur=2.5, **SMALL),  # type: ignore[arg-type]
    "disc44": LensSceneConfig("tabletop", seed=44, blur=2.2, **SMALL),  # type: ignore[arg-type]
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("character-runs"))
    parser.add_argument("--steps", type=float, default=1.0, help="share of the steps of the preset")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--only", nargs="+", default=list(SCENES), help="some of the scenes")
    parser.add_argument("--samples", type=int, help="light paths per pixel of a scene, instead of its own number")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    given = parser.parse_args()
    for name in given.only:
        if given.samples and SCENES[name] is not None:
            fewer = replace(SCENES[name], samples=given.samples)  # type: ignore[type-var]
            name = f"{name}-{given.samples}"
            SCENES[name] = fewer
        scene, sharp = place(name, given.out)
        true = SCENES[name].shape if SCENES[name] is not None else None  # type: ignore[union-attr]
        print(f"{name}: truth: {described(true)}", flush=True)
        for seed in given.seeds:
            found = {}
            for label, wanted in (("disc", False), ("character", True)):
                config = replace(shortened(preset(given.preset), given.steps), seed=seed)
                config = config.changed({"lens": {"character": wanted}})
                out, begun = given.out / f"run-{name}-{seed}-{label}", time.process_time()
                run = train(scene, config, out=out, resume=True, keep=KeepConfig(preview_minutes=0), quiet=True)
                found[label] = scores(run, scene, sharp)
                wide, deep = (100 * off for off in lens_error(run, scene))
                words = "whole {:.2f} dB, outer third {:.2f} dB".format(*found[label])
                spent = time.process_time() - begun
                print(f"  seed {seed} {label:10} {words}; lens off by {wide:.1f} %, {deep:.1f} %; {spent:.0f} s")
            print(f"  seed {seed} found: {described(run.lens.shape)}")
            gain = np.subtract(found["character"], found["disc"])
            print(f"  seed {seed} gain:  whole {gain[0]:+.2f} dB, outer third {gain[1]:+.2f} dB", flush=True)


def place(name: str, out: Path) -> tuple[Scene, dict[int, np.ndarray]]:
    """The scene, and the sharp photos of its held-out views."""
    config = SCENES[name]
    if config is None:
        scene = scenes.demo()
        return scene, {i: photo for i in scene.test if (photo := scene.sharp(i)) is not None}
    make_lens_scene(out / name, config)
    scene, sharp, tracer = scenes.load(out / name), {}, None
    layout = make_layout(config.layout, config.seed)
    for i in scene.test:
        path = out / f"{name}-sharp" / f"{i:03d}.png"
        if not path.exists():
            tracer = tracer or RayTracer(layout.parts, layout.sky, config.variant)
            path.parent.mkdir(exist_ok=True)
            view = i // max(config.bracket, 1)  # all photos of a bracket are taken from one place
            write_image(path, take(tracer, plan(config, layout)[0][view], Shot(view, "sharp", "", None), config))
        sharp[i] = read_image(path)
    return scene, sharp


def scores(run: Run, scene: Scene, sharp: dict[int, np.ndarray]) -> tuple[float, float]:
    """Mean PSNR of the held-out views, and of their outer third."""
    found = []
    for i in scene.test:
        error = np.square(sharp_view(run, scene, i) - sharp[i]).mean(-1)
        found.append([-10 * math.log10(part.mean()) for part in (error, error[outer_third(error.shape)])])
    whole, outside = np.mean(found, axis=0)
    return float(whole), float(outside)


def outer_third(size: tuple[int, ...]) -> np.ndarray:
    """(H, W): the third of the pixels that is farthest from the middle of the picture."""
    height, width = size
    away = np.hypot(np.arange(width) + 0.5 - width / 2, (np.arange(height) + 0.5 - height / 2)[:, None])
    return away > np.quantile(away, 2 / 3)


def described(shape: object) -> str:
    return shape.describe() if isinstance(shape, RealLens) else "a disc"


if __name__ == "__main__":
    main()
