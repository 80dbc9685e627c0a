"""Are the standard errors of each photo's lens honest? Scenes with a known lens; runs on them; how often the true value
lies within one and two standard errors.

    python benchmarks/error_bars.py --out error-bars            makes scenes, trains (resumes), measures
    python benchmarks/error_bars.py --out error-bars --only mixed1 garden31

The constants in `dofnerf.train.precision` (a factor, and what is common to all photos of a run) are fitted on SCENES.
Whether they hold elsewhere is tested by leaving one scene out: fitted on the others, how often do its photos lie within
the errors? NEW scenes had no part in any choice. Prints that for each way to estimate: each value an observation;
blocks of 8, 16 and 32 pixels; these with a factor and a common part. Needs Mitsuba.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from dofnerf import scenes
from dofnerf.lab.synth.lens import LensSceneConfig, make_lens_scene
from dofnerf.models.data import training_data
from dofnerf.scenes import Scene
from dofnerf.train import KeepConfig, Run, checkpoint, preset, shortened, train
from dofnerf.train.precision import covariance, slopes_of, standard_errors
from dofnerf.train.precision import measure as raw_errors

SMALL = {"views": 16, "size": (168, 112), "samples": 40, "mixed": True, "sharp": False, "depth": False}
SCENES = {
    "package": None,
    "mixed1": LensSceneConfig("tabletop", seed=1, blur=1.5, **SMALL),  # type: ignore[arg-type]
    "workshop12": LensSceneConfig("workshop", seed=12, blur=1.5, **SMALL),  # type: ignore[arg-type]
    "tabletop13": LensSceneConfig("tabletop", seed=13, blur=2.2, **SMALL),  # type: ignore[arg-type]
    "garden31": LensSceneConfig("garden", seed=31, blur=1.0, **SMALL),  # type: ignore[arg-type]
}
NEW = {
    "garden21": LensSceneConfig("garden", seed=21, blur=1.5, **SMALL),  # type: ignore[arg-type]
    "workshop22": LensSceneConfig("workshop", seed=22, blur=2.2, **SMALL),  # type: ignore[arg-type]
}
BLOCKS = (0, 8, 16, 32)
OUTLIER = 4.0  # standard errors, beyond which a photo counts no more: some lenses are simply not found
BLURRED = 1.0  # pixels of the largest blur radius, with less of which a photo has no part in the fit


class Measured(NamedTuple):
    """Of a scene's photos: `off` (M, 2), logarithm of learned / true aperture, and learned − true focus in pixels of
    blur; `errors` (M, blocks, 2), raw; `shipped` (M, 2), NaN where the photo says nothing; `blurred` (M,)."""

    off: np.ndarray
    errors: np.ndarray
    shipped: np.ndarray
    blurred: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("error-bars"))
    parser.add_argument("--steps", type=float, default=0.6, help="share of the steps of the preset fast")
    parser.add_argument("--only", nargs="+", help="some of the scenes")
    given = parser.parse_args()
    found = {}
    for name, config in {**SCENES, **NEW}.items():
        if given.only and name not in given.only:
            continue
        if config is None:
            scene = scenes.demo()
        else:
            make_lens_scene(given.out / name, config)
            scene = scenes.load(given.out / name, hold_every=0)
        found[name] = measure(scene, given.out / f"run-{name}", given.steps)
        bias, spread = found[name].off.mean(0), found[name].off.std(0)
        words = f"aperture {100 * bias[0]:+.1f} ± {100 * spread[0]:.1f} %, focus {bias[1]:+.3f} ± {spread[1]:.3f} px"
        print(f"{name:12} {len(found[name].off)} photos, learned − true: {words}", flush=True)
    for k, what in enumerate(("aperture", "focus")):
        report(found, k, what)


def measure(scene: Scene, out: Path, steps: float) -> Measured:
    """Train, or take the finished run, and compare its lens with the true one."""
    run = Run.load(out) if (out / checkpoint.FILE).exists() else None
    if run is None or run.learner.progress.step < run.config.method.total:
        config = shortened(preset("fast"), steps)
        run = train(scene, config, out=out, resume=True, keep=KeepConfig(preview_minutes=0))
    data, learner = training_data(scene, "given", torch.device("cpu")), run.learner
    learner.precision = raw_errors(learner, data)  # as this version measures them
    shipped = standard_errors(learner)
    off, errors, told = [], [], []
    for k, i in enumerate(scene.train):
        true, found = scene.lens(i), run.lenses[k]
        assert true is not None
        unit = np.array([found.aperture, 1 / found.aperture])
        nearer = found.aperture * (found.focus_disparity - true.focus_disparity)
        off.append([math.log(found.aperture / true.aperture), nearer])
        slopes = slopes_of(learner, data, k)
        errors.append([np.sqrt(np.diag(covariance(slopes, block))[:2]) / unit for block in BLOCKS])
        told.append([shipped[name][k] or np.nan for name in ("aperture", "focus_disparity")] / unit)
    blurred = run.lens.largest_radius.detach().numpy() >= BLURRED
    found_errors = np.where(np.isfinite(errors), errors, np.nan)  # infinite: the photo does not tell
    return Measured(np.array(off), found_errors, np.array(told, dtype=float), blurred)


def report(found: dict[str, Measured], k: int, what: str) -> None:
    """How often the truth lies within the errors, for each way to estimate them."""
    fitted = [name for name in SCENES if name in found]
    all_of_them = fit([found[name] for name in fitted], k)
    print(f"\n{what}: factor {all_of_them[0]:.2f}, common {all_of_them[1]:.4f} by {' '.join(fitted)}")
    print(f"within 1, within 2 standard errors (wanted: 60 to 76 %, 90 to 98 %); within 1 in {' '.join(found)}")
    ways = {"as shipped": {name: one.shipped[:, k] for name, one in found.items()}}
    for b, block in enumerate(BLOCKS):
        name = f"blocks of {block} px" if block else "each value"
        ways[name] = {name: one.errors[:, b, k] for name, one in found.items()}
    ways["fitted on the other scenes"] = {}
    for name, one in found.items():
        factor, common = fit([found[other] for other in fitted if other != name], k)
        error = np.hypot(factor * one.errors[:, -1, k], common)
        ways["fitted on the other scenes"][name] = np.where(one.blurred, error, np.nan)
    for way, errors in ways.items():
        for which, names in (("", fitted), (", new scenes", [name for name in NEW if name in found])):
            ratios = [np.abs(found[name].off[:, k]) / errors[name] for name in names]
            ratios = [one[np.isfinite(one)] for one in ratios]
            if ratios:
                known, each = np.concatenate(ratios), "  ".join(f"{np.mean(one <= 1):.2f}" for one in ratios)
                shares = f"{np.mean(known <= 1):.2f}  {np.mean(known <= 2):.2f}"
                print(f"  {way + which:40} {shares}  ({len(known)} photos)   {each}")


def fit(scenes_: list[Measured], k: int) -> tuple[float, float]:
    """The factor and the common part that make the errors of some photos most likely, if they are normal but for
    outliers."""
    known = [one.blurred & np.isfinite(one.errors[:, -1, k]) for one in scenes_]
    raw = np.concatenate([one.errors[which, -1, k] for one, which in zip(scenes_, known, strict=True)])
    off = np.concatenate([one.off[which, k] for one, which in zip(scenes_, known, strict=True)])
    best = (np.inf, 1.0, 0.0)
    for factor in np.geomspace(0.5, 12, 80):
        for common in (0.0, *np.geomspace(0.02, 3, 60) * np.median(np.abs(off))):
            variance = (factor * raw) ** 2 + common**2
            likely = np.log(variance) + np.minimum(off**2 / variance, OUTLIER**2)
            best = min(best, (float(np.mean(likely)), factor, common))
    return best[1], best[2]


if __name__ == "__main__":
    main()
