"""How much of the defocus gap does training with a lens close? Three runs of one budget: without a lens model
(pinhole), ours, trained on sharp photos (oracle).

    python benchmarks/share.py                                  the scene in the package, preset fast
    python benchmarks/share.py SCENE --field hash --steps 0.5   half of the preset's steps
    python benchmarks/share.py SCENE SCENE --lpips-weights FILE several scenes, their mean share, and LPIPS as well
    python benchmarks/share.py --only ours --lens '{"search": false}'
    python benchmarks/share.py --photos sharp --field hash      nothing is blurred: does it harm to learn a lens?
    python benchmarks/share.py --width 144 --field nerf --field-config '{"depth": 4, "width": 64}'

Prints PSNR over the held-out views, rendered with aperture 0 against the all-in-focus photos, the share (ours −
pinhole) / (oracle − pinhole), and the errors of the learned lens. On sharp photos there is no gap: it prints what ours
loses, and the largest blur radius that the learned lens gives to any of the scene's points. Choose settings with
--validation, which holds out some of the training photos instead. Runs are kept under --out and resumed.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import mean

import dofnerf
from dofnerf import scenes
from dofnerf.evaluate.lpips import Lpips, find_weights
from dofnerf.evaluate.scores import held_out_psnr, largest_blur, lens_error, sharp_view
from dofnerf.lab.bench.cell import validation
from dofnerf.scenes import Scene
from dofnerf.train import KeepConfig, on_sharp_photos, preset, shortened, train, without_lens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenes", nargs="*", type=Path, help="none: the scene in the package")
    parser.add_argument("--width", type=int)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--field", default="splat")
    parser.add_argument("--steps", type=float, default=1.0, help="share of the preset's steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--photos", choices=["given", "sharp"], default="given")
    parser.add_argument("--lens", type=json.loads, default={}, help="changes to the lens's settings, as JSON")
    parser.add_argument("--method", type=json.loads, default={}, help="changes to the method's settings, as JSON")
    parser.add_argument("--only", choices=["pinhole", "ours", "oracle"], nargs="+")
    parser.add_argument(
        "--validation", action="store_true", help="hold out training photos, not the scene's held-out views"
    )
    parser.add_argument("--lpips-weights", type=Path, help="also print LPIPS, and the share of what defocus adds to it")
    parser.add_argument("--out", type=Path, default=Path("share-runs"))
    given = parser.parse_args()

    perceptual = find_weights(given.lpips_weights) if given.lpips_weights else None
    shares = []
    for path in given.scenes or [None]:
        scene = scenes.load(path, width=given.width) if path else scenes.demo(width=given.width)
        scene = validation(scene) if given.validation else scene
        shares += compare(scene, given, given.out / path.name if len(given.scenes) > 1 else given.out, perceptual)
    if len(shares) > 1:
        names = ("PSNR", "LPIPS") if perceptual else ("PSNR",)
        found = (
            f"{name} {sum(column) / len(column):.3f}"
            for name, column in zip(names, zip(*shares, strict=True), strict=True)
        )
        print(f"mean share over {len(shares)} scenes  {', '.join(found)}")


def compare(scene: Scene, given: argparse.Namespace, out: Path, perceptual: Lpips | None) -> list[tuple[float, ...]]:
    """Train and print; the share of PSNR, and of LPIPS if its weights are given, unless some run is left out."""
    config = replace(shortened(preset(given.preset, given.field), given.steps), seed=given.seed)
    config = replace(config.changed({"method": given.method}), photos=given.photos)
    configs = {
        "pinhole": without_lens(config),
        "ours": config.changed({"lens": given.lens}),
        "oracle": on_sharp_photos(config),
    }
    if given.photos == "sharp":
        del configs["oracle"]
    print(f"dofnerf {dofnerf.__version__}; {scene.describe()}; {given.field}, {config.method}")
    found = {}
    for name, one in configs.items():
        if name not in (given.only or configs):
            continue
        run = train(scene, one, out=out / name, resume=True, keep=KeepConfig(preview_minutes=0))
        found[name] = [held_out_psnr(run, scene)]
        words = f"{name:8}  PSNR {found[name][0]:.2f}"
        if perceptual:
            found[name].append(mean(perceptual(sharp_view(run, scene, i), scene.sharp(i)) for i in scene.test))
            words += f"  LPIPS {found[name][1]:.4f}"
        print(f"{words}  {run.learner.progress.seconds:.0f} s", flush=True)
        if run.has_lens and given.photos == "sharp":
            blur = sorted(largest_blur(run, scene))
            print(
                f"          largest blur that the lens claims: {blur[len(blur) // 2]:.2f} px (median), {blur[-1]:.2f} "
                f"px (most)"
            )
        elif run.has_lens:
            wide, deep = (100 * off for off in lens_error(run, scene))
            print(f"          lens off by {wide:.1f} % of the aperture, {deep:.1f} % of the focus range (means)")
    if len(found) == 3:
        columns = zip(found["pinhole"], found["ours"], found["oracle"], strict=True)
        shares = tuple((ours - without) / (sharp - without) for without, ours, sharp in columns)
        print(f"share of the defocus gap closed  {', '.join(f'{share:.3f}' for share in shares)}", flush=True)
        return [shares]
    if {"pinhole", "ours"} <= found.keys():
        print(f"ours − without a lens model  {found['ours'][0] - found['pinhole'][0]:+.2f} dB")
    return []


if __name__ == "__main__":
    main()
